"""Real logs of starts that failed: one H200 and two CPU cores, vLLM 0.26.0, none of it written for a test."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.explain.doctor.examine import Verdict, examine
from tests.explain.doctor import scenes as s

REAL = [
    (s.STARTS / "h200-gdn-missing.log", "gdn-prefill-missing", "kernel-warmup/JIT", "graph-memory-estimate"),
    (s.STARTS / "h200-gpu-held.log", "gpu-still-held", "device-init", "device-init"),
    (s.DATA / "h200-gpu-held-two-starts.log", "gpu-still-held", "device-init", "device-init"),
    (s.DATA / "h200-deepgemm-unfinished.log", "deepgemm-warmup-unfinished", "kernel-warmup/JIT", "kernel-warmup/JIT"),
    (s.DATA / "failed-align.log", "align-block-too-large", "config-validation", "serving-KV-alloc"),
    (s.DATA / "failed-max-len.log", "max-len-above-model", "config-validation", "config-validation"),
    (s.DATA / "failed-model.log", "model-not-found", "config-validation", "config-validation"),
]


@pytest.mark.parametrize(("path", "entry", "stage", "reached"), REAL, ids=[case[0].stem for case in REAL])
def test_a_real_failure_is_named(path: Path, entry: str, stage: str, reached: str) -> None:
    log = examine(path)
    found = log.diagnoses[-1]
    assert (log.verdict, log.starts) == (Verdict.FAILED, 1)
    assert found.finding is not None
    assert (found.finding.entry.id, found.stage, found.reached) == (entry, stage, reached)
    lines = path.read_text().splitlines()
    assert all(quote.text.removeprefix("… ")[:30] in lines[quote.line - 1] for quote in found.finding.evidence)


def test_the_former_server_that_holds_the_gpu_is_evidence() -> None:
    found = examine(s.DATA / "h200-gpu-held-two-starts.log").diagnoses[-1].finding
    assert found is not None
    assert any("DeepGEMM warmup" in quote.text for quote in found.evidence)


def test_the_warm_up_says_how_long_it_took_so_far() -> None:
    found = examine(s.DATA / "h200-deepgemm-unfinished.log").diagnoses[-1]
    assert found.values["seconds"] == 540
    assert found.finding is not None
    assert "540 s" in found.finding.cause
    assert "910/1949" in found.finding.evidence[-1].text


def test_what_nobody_knows_stays_unknown() -> None:
    log = examine(s.STARTS / "cpu-died.log")
    found = log.diagnoses[-1]
    assert (log.verdict, found.finding, found.stage) == (Verdict.UNKNOWN, None, "runtime-crash")
    assert any("RuntimeError: Input tensor dtype mismatch" in quote.text for quote in found.quotes)
