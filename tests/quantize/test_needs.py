import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import StreamproofError
from quantize.model_shape import check_config
from quantize.needs import GIB, Available, check, describe, needs
from quantize.shapes.plan import configuration
from quantize.target import Calibration, load_target

SHAPE = check_config(configuration({}), "x")
CALIBRATION = load_target("qwen3.5-35b-a3b").calibration
EVIDENCE = Path(__file__).parents[2] / "evidence" / "h200" / "nvfp4-quantize-20261130"
WALL_S = 458
"""From the start of `just quantize` to the signature: 04:58:55 to 05:06:33, as its README says."""
PLENTY = Available(gpu=80 * GIB, memory=64 * GIB, disk=200 * GIB)


def test_the_real_model_fits_one_card_of_80_gb() -> None:
    wanted = needs(SHAPE, CALIBRATION, device="cuda", download_bytes=SHAPE.total_bytes)
    check(wanted, PLENTY)
    assert wanted.disk.amount == pytest.approx(71.9e9 + 25.6e9 + 2.6e9, rel=0.01)  # 25.6 GB: as ModelOpt users report


def test_the_estimate_beside_a_real_run() -> None:
    """Never less than it took, which would begin what cannot end; and not so much more that cards are refused."""
    wanted = needs(SHAPE, CALIBRATION, device="cuda", download_bytes=0)
    stages = json.loads((EVIDENCE / "stages.json").read_bytes())
    for name in ("samples", "tokens", "batch_tokens"):
        assert stages["calibrate"]["parameters"]["calibration"][name] == getattr(CALIBRATION, name)
    in_use = max(float(line.split(",")[1]) for line in (EVIDENCE / "gpu.csv").read_text().splitlines()[1:]) * (1 << 20)
    assert stages["calibrate"]["peak_gpu_bytes"] < in_use < wanted.gpu.amount < 1.1 * in_use
    resident = max(stages[stage]["peak_rss_bytes"] for stage in ("calibrate", "export"))
    assert resident < wanted.memory.amount < 1.15 * resident
    # The run's source was in memory; the estimate is for a disk.
    assert WALL_S < wanted.seconds.amount < 1.5 * WALL_S


def test_on_a_cpu_no_gpu_is_needed() -> None:
    wanted = needs(SHAPE, CALIBRATION, device="cpu", download_bytes=0)
    assert wanted.gpu.amount == 0
    assert not any("GPU memory" in line for line in describe(wanted))
    check(wanted, Available(gpu=None, memory=64 * GIB, disk=64 * GIB))


@pytest.mark.parametrize(
    ("there", "what"),
    [
        (Available(gpu=8 * GIB, memory=64 * GIB, disk=200 * GIB), "GPU memory; 8.0 GiB are free"),
        (Available(gpu=80 * GIB, memory=4 * GIB, disk=200 * GIB), "memory; 4.0 GiB are free"),
        (Available(gpu=80 * GIB, memory=64 * GIB, disk=50 * GIB), "disk space; 50.0 GiB are free"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_formula(there: Available, what: str) -> None:
    wanted = needs(SHAPE, CALIBRATION, device="cuda", download_bytes=SHAPE.total_bytes)
    with pytest.raises(StreamproofError, match=what) as caught:
        check(wanted, there)
    assert " + " in caught.value.message
    assert caught.value.remedy


@given(samples=st.integers(1, 500), tokens=st.integers(16, 20_000), batch=st.integers(1, 200_000))
def test_more_text_never_needs_less(samples: int, tokens: int, batch: int) -> None:
    def gpu(samples: int, tokens: int) -> float:
        calibration = Calibration(recipe="cpu", samples=samples, tokens=tokens, seed=0, batch_tokens=batch)
        return needs(SHAPE, calibration, device="cuda", download_bytes=0).gpu.amount

    assert gpu(samples, tokens) < gpu(samples + 1, tokens)
    assert gpu(samples, tokens) < gpu(samples, tokens + 1)
