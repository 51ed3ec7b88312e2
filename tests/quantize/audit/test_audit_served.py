"""Gate 8: a run that served the checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.errors import StreamproofError
from quantize.audit.model import Audit, GateName, Verdict
from quantize.audit.run import audit_checkpoint
from quantize.quality.folder import identity
from quantize.quality.served import CHECKS
from tests.quantize.audit.synthetic import Folder


def run_of(folder: Path, **outcomes: str) -> dict[str, Any]:
    """A `served.json` whose checks all passed but those named."""
    engine = dict.fromkeys(
        ("version", "argv", "ready_s", "quantization", "moe_backend", "moe_line", "linear_kernel", "weight_only",
         "kv_scales", "load_s", "loaded_gib")
    )  # fmt: skip
    return {
        "title": "a run",
        "checkpoint": identity(folder),
        "real": True,
        "stand_in": None,
        "engine": engine | {"version": "0.26.0", "quantization": "modelopt_fp4", "moe_backend": "MARLIN"},
        "experts": None,
        "decoder": None,
        "drafter": None,
        "replies": {"asked": 1, "exact": 1, "prompt_tokens": 1, "reply_tokens": 1, "first_wrong": None},
        "repeat": {"tokens": 1, "same": 1, "differs_from_b": True},
        "acceptance": {"quantized": None, "reference": None, "rates": [], "tokens_a_step": None},
        "checks": [{"name": name, "outcome": outcomes.get(name, "passed"), "detail": f"on {name}"} for name in CHECKS],
    }


@pytest.fixture
def folder(sound: Folder, tmp_path: Path) -> Path:
    return sound.write(tmp_path / "checkpoint")


def audited(folder: Path, source: Path, run: dict[str, Any]) -> Audit:
    file = folder.parent / "served.json"
    file.write_text(json.dumps(run))
    return audit_checkpoint(folder, source=source, served=file, processes=1)


def test_a_run_that_showed_everything_completes_the_audit(folder: Path, source: Path) -> None:
    audit = audited(folder, source, run_of(folder))
    assert audit.passed
    assert audit.complete
    assert audit.gate(GateName.SERVED).figures["MoE backend"] == "MARLIN"


def test_vllm_36094_a_collapse_of_quality_fails_the_gate(folder: Path, source: Path) -> None:
    audit = audited(folder, source, run_of(folder, quality="failed"))
    assert [gate.name for gate in audit.failed] == [GateName.SERVED]
    assert audit.gate(GateName.SERVED).offenders[0].reason == "on quality"
    assert not audit.passed


def test_a_run_without_a_reference_passes_and_says_what_it_did_not_show(folder: Path, source: Path) -> None:
    gate = audited(folder, source, run_of(folder, quality="no information")).gate(GateName.SERVED)
    assert gate.verdict is Verdict.PASSED
    assert gate.notes == ("quality: on quality",)


@pytest.mark.parametrize(
    "change",
    [{"stand_in": "its weights in BF16"}, {"checks": [{"name": "load", "outcome": "no information", "detail": "x"}]}],
)
def test_a_run_that_says_too_little_is_no_check(change: dict[str, Any], folder: Path, source: Path) -> None:
    gate = audited(folder, source, run_of(folder) | change).gate(GateName.SERVED)
    assert gate.verdict is Verdict.NOT_CHECKED


def test_a_run_of_another_checkpoint_fails_the_gate(folder: Path, source: Path) -> None:
    gate = audited(folder, source, run_of(folder) | {"checkpoint": "0" * 64}).gate(GateName.SERVED)
    assert gate.verdict is Verdict.FAILED
    assert "another one was served" in gate.offenders[0].reason


def test_a_file_that_is_no_run_is_an_error(folder: Path, source: Path) -> None:
    with pytest.raises(StreamproofError, match="is no result of a serving run"):
        audited(folder, source, {"checks": []})
