"""Plans against starts that were measured: exact where the engine is exact, within 3 % where it measures itself."""

from __future__ import annotations

import pytest

from bench.explain.preflight.gpus import GIB
from tests.explain.preflight.planned import LOGS, REPOSITORY, basis, lines

AS_MEASURED = (("engine.flags.gpu_memory_utilization", "0.9"), ("engine.flags.max_model_len", "16384"))
VANILLA = LOGS / "h200-vanilla.log"
MTP4 = LOGS / "h200-mtp4-unfinished.log"
EVIDENCE = REPOSITORY / "evidence" / "h200" / "h200-fp8-dummy-20261130" / "engine-0.log"

EXACT = ("kv.block_size", "graphs.piecewise", "graphs.full", "graphs.largest")
WITHIN_3_PER_CENT = ("weights.total", "kv.available", "kv.tokens")


@pytest.mark.parametrize(
    ("target", "overrides", "log"),
    [
        pytest.param("vanilla", AS_MEASURED, VANILLA, id="vanilla, BF16 KV"),
        pytest.param("h200-fp8", AS_MEASURED, MTP4, id="the article's list, FP8 KV, MTP4"),
        pytest.param("h200-fp8-dummy", (), EVIDENCE, id="evidence/h200"),
    ],
)
def test_a_measured_start_is_planned(target: str, overrides: tuple[tuple[str, str], ...], log: object) -> None:
    planned = lines(basis(target, *overrides), log)  # type: ignore[arg-type]  # a path
    for key in EXACT:
        assert planned[key].measured is not None, key
        assert planned[key].value == planned[key].measured, key
    for key in WITHIN_3_PER_CENT:
        error = planned[key].error
        assert error is not None, key
        assert abs(error) < 0.03, (key, error)


def test_the_figures_that_were_published() -> None:
    vanilla = lines(basis("vanilla", *AS_MEASURED))
    assert vanilla["kv.block_size"].value == 1056
    assert vanilla["weights.total"].value == pytest.approx(33.4 * GIB, rel=0.03)
    assert vanilla["kv.available"].value == pytest.approx(87.4 * GIB, rel=0.03)
    assert vanilla["kv.tokens"].value == pytest.approx(3.23e6, rel=0.03)
    tuned = lines(basis("h200-fp8", *AS_MEASURED))
    assert tuned["kv.block_size"].value == 2160
    assert tuned["weights.total"].value == pytest.approx(34.2 * GIB, rel=0.03)
    assert tuned["graphs.largest"].value == 12290


@pytest.mark.parametrize(("target", "log"), [("cpu", "cpu-toy.log"), ("cpu-mtp", "cpu-toy-mtp.log")])
def test_the_cpu_engine_is_planned_to_the_token(target: str, log: str) -> None:
    planned = lines(basis(target), LOGS / log)
    assert planned["kv.block_size"].value == planned["kv.block_size"].measured == 256
    assert planned["kv.tokens"].value == planned["kv.tokens"].measured
    assert planned["kv.available"].value == planned["kv.available"].measured


def test_the_cache_is_exact_once_its_memory_is_known() -> None:
    for target, gib, longest, tokens in (
        ("vanilla", 87.41, 16384, 3_231_371),
        ("h200-fp8", 87.07, 16384, 2_421_051),
        ("h200-fp8", 90.92, 32768, 3_866_624),
    ):
        cache = basis(target).cache
        assert cache.tokens(cache.blocks(int(gib * GIB)), longest) == tokens


def test_estimates_say_so_and_are_near() -> None:
    vanilla, evidence = lines(basis("vanilla", *AS_MEASURED), VANILLA), lines(basis("h200-fp8-dummy"), EVIDENCE)
    for planned in (vanilla, evidence):
        peak = planned["memory.peak"]
        assert "estimate" in peak.label
        assert peak.error is not None
        assert abs(peak.error) < 0.1
    assert evidence["graphs.capture"].value == pytest.approx(14, rel=0.1)
