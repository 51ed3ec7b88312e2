"""The toy, quantized, dequantized and compared: by transformers in CI, by real vLLM among the thorough tests."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench.cli import app
from quantize.audit.folder import open_checkpoint
from quantize.checkpoint import TOY
from quantize.quality.pairs import pair
from quantize.quality.result import Quality, Slice, slices
from quantize.quality.scores import Scores, load_scores
from quantize.quality.served import Served, read_served
from tests.quantize.quality.handmade import quantize_folder, read, write_safetensors

pytestmark = pytest.mark.engine

VOCABULARY = 2048
WORSE = "model.language_model.layers.2.mlp.experts.1.down_proj.weight_scale_2"


def quality(*arguments: object) -> int:
    done = CliRunner().invoke(app, ["quantize", "quality", "cpu-mtp", "--quiet", "--texts", "10", *map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code


def measured(out: Path) -> Quality:
    return Quality.model_validate_json((out / "quality.json").read_bytes())


def figure(part: Slice, name: str) -> tuple[float, float, float]:
    found = getattr(part, name)
    return found.low, found.value, found.high


def rewritten(source: Path, out: Path, *, without: tuple[str, ...] = (), doubled: str = "") -> Path:
    """A copy of a checkpoint without some tensors, or with one FP32 scale doubled."""
    checkpoint = open_checkpoint(source)
    out.mkdir()
    for path in source.iterdir():
        if path.suffix != ".safetensors":
            (out / path.name).write_bytes(path.read_bytes())
    tensors = {n: (t.dtype, t.shape, read(source, t)) for n, t in checkpoint.tensors.items() if n not in without}
    if doubled:
        dtype, shape, data = tensors[doubled]
        raised = bytearray(data)
        raised[2] += 0x80  # the exponent's lowest bit of a little-endian float32
        raised[3] += raised[2] < 0x80
        tensors[doubled] = (dtype, shape, bytes(raised))
    write_safetensors(out / "model.safetensors", tensors)
    return out


@pytest.fixture(scope="module")
def nvfp4(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quality") / "toy-nvfp4"
    quantize_folder(TOY, folder)
    return folder


@pytest.fixture(scope="module")
def by_transformers(nvfp4: Path) -> Path:
    out = nvfp4.with_name("by-transformers")
    command = ("--quantized", nvfp4, "--reference", TOY, "--dequantize", "--by", "transformers", "--out", out)
    assert quality(*command) == 0
    return out


def test_the_loss_of_the_toy_is_seen_and_small(by_transformers: Path) -> None:
    found = measured(by_transformers)
    assert found.weights_only
    assert "weights only, dequantized to BF16" in found.title
    assert found.all.accuracy_reference == pytest.approx(0.88, abs=0.03)  # the toy knows its text
    low, recovery, high = figure(found.all, "recovery")
    assert 99 < low < recovery < high < 100.2
    low, divergence, high = figure(found.all, "divergence")
    assert 0.0005 < low < divergence < high < 0.01
    assert figure(found.all, "same_first")[0] > 0.95
    assert not (by_transformers / "served.json").exists()  # nothing was served


def test_every_token_counts_once_and_in_one_role(by_transformers: Path) -> None:
    found = measured(by_transformers)
    assert sum(part.tokens for part in found.roles) == found.all.tokens
    assert sum(part.tokens for part in found.positions) == found.all.tokens


@pytest.mark.thorough
def test_twenty_tokens_bound_the_divergence_from_below(nvfp4: Path) -> None:
    out = nvfp4.with_name("exact")
    command = ("--quantized", nvfp4, "--reference", TOY, "--dequantize", "--by", "transformers", "--out", out)
    assert quality(*command, "--top-k", VOCABULARY) == 0  # every token known of every position: no rest, no bias

    def first(side: str) -> list[Scores]:
        scores = load_scores(out / side / "scores.npz")
        return [replace(text, top_ids=text.top_ids[:, :20], top_logprob=text.top_logprob[:, :20]) for text in scores]

    reference, quantized = first("reference"), first("quantized")
    roles = [[0] * (len(text.tokens) + 1) for text in reference]
    bound, _, _ = slices(pair(reference, quantized, roles, range(10)), seed=1)
    exact = measured(out).all
    assert bound.divergence is not None
    assert exact.divergence is not None
    assert bound.divergence_ceiling is not None
    assert 0.8 * exact.divergence.value < bound.divergence.value < exact.divergence.value < bound.divergence_ceiling
    assert bound.rest == pytest.approx(0.007, abs=0.004)
    assert bound.perplexity_quantized == exact.perplexity_quantized


def test_one_wrong_scale_costs_more(nvfp4: Path, by_transformers: Path) -> None:
    out = nvfp4.with_name("worse")
    shutil.copytree(by_transformers / "reference", out / "reference")  # measured once, taken from there
    damaged = rewritten(nvfp4, nvfp4.with_name("toy-damaged"), doubled=WORSE)
    command = ("--quantized", damaged, "--reference", TOY, "--dequantize", "--by", "transformers", "--out", out)
    before = (out / "reference" / "scores.npz").stat().st_mtime_ns
    assert quality(*command) == 0
    assert (out / "reference" / "scores.npz").stat().st_mtime_ns == before
    assert figure(measured(out).all, "divergence")[0] > figure(measured(by_transformers).all, "divergence")[2]


@pytest.mark.thorough
def test_vllm_finds_what_transformers_does_and_serves_what_it_must(nvfp4: Path, by_transformers: Path) -> None:
    out = nvfp4.with_name("by-vllm")
    assert quality("--quantized", nvfp4, "--reference", TOY, "--dequantize", "--out", out) == 0
    engine, other = measured(out).all, measured(by_transformers).all
    for name in ("recovery", "divergence", "same_first"):  # BF16 arithmetic beside float32: intervals that overlap
        low, _, high = figure(engine, name)
        assert low <= figure(other, name)[2]
        assert high >= figure(other, name)[0]
    served = read_served(out / "served.json")
    passed = {check.name for check in served.checks if check.outcome == "passed"}
    assert {"load", "experts", "drafter", "replies", "repeatable", "quality"} <= passed
    assert served.acceptance.quantized is not None
    assert served.acceptance.quantized.rates[0] > 0.5
    assert served.outcome == "no information"  # a stand-in
    assert json.loads((out / "quantized" / "side.json").read_text())["tracked"]


@pytest.mark.thorough
def test_vllm_starts_without_weights_that_its_tracker_does_not_look_at(tmp_path: Path) -> None:
    lost = ("mtp.fc.weight", "mtp.layers.0.mlp.experts.3.up_proj.weight")
    damaged = rewritten(TOY, tmp_path / "damaged", without=lost)
    assert quality("--quantized", damaged, "--out", tmp_path / "out") == 3
    served: Served = read_served(tmp_path / "out" / "served.json")
    checks = {check.name: check for check in served.checks}
    assert checks["load"].outcome == "passed"
    assert checks["replies"].outcome == "passed"
    assert checks["drafter"].outcome == "failed"
    assert served.drafter is not None
    assert served.drafter.missing == ("mtp.fc.weight", "mtp.layers.0.mlp.experts.3.up_proj.weight (expert 3, w3)")
