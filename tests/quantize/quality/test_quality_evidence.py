"""`evidence/h200/nvfp4-quantize-20261130`: what its README says is what its files say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quantize.audit.model import GateName, Verdict, read_audit
from quantize.quality.load_log import read_log_file
from quantize.quality.served import read_served

EVIDENCE = Path(__file__).parents[3] / "evidence" / "h200" / "nvfp4-quantize-20261130"


def test_the_audit_passed_every_gate_that_it_could_check() -> None:
    audit = read_audit(EVIDENCE / "audit.json")
    assert audit.passed
    open_gates = {gate.name for gate in audit.gates if gate.verdict is not Verdict.PASSED}
    assert open_gates == {GateName.SERVED}
    assert audit.gate(GateName.FILES).figures["file bytes"] == 25_615_220_536
    assert audit.gate(GateName.KV_CACHE).figures["of a calibrated cache"] == 20


def test_the_serving_run_as_it_was_written() -> None:
    served = read_served(EVIDENCE / "served.json")
    assert (served.schema_version, served.outcome, served.real) == ("1.0", "failed", False)
    assert [check.name for check in served.checks if check.outcome == "failed"] == ["repeatable"]
    assert (served.replies.asked, served.replies.exact) == (12, 12)
    assert served.drafter is not None
    assert (served.drafter.loaded, served.drafter.unseen) == (780, 5)
    assert served.experts is not None
    assert served.experts.loaded == 122_880
    assert served.acceptance.quantized is not None
    assert sum(served.acceptance.quantized.accepted) == 0
    assert served.engine.ready_s == pytest.approx(295, abs=0.5)


def test_the_same_log_read_again() -> None:
    log = read_log_file(EVIDENCE / "engine.log")
    assert (log.kv_scales, log.kv_scales_drafter) == ("checkpoint", "1.0")
    served = read_served(EVIDENCE / "served.json").engine
    assert served.kv_scales == "1.0"  # the drafter's, taken for the target's
    for name in ("quantization", "moe_backend", "moe_line", "weight_only", "load_s", "loaded_gib"):
        assert getattr(log, name) == getattr(served, name)
    assert log.tracked


def test_no_reply_took_its_prefix_from_the_cache() -> None:
    rates = [
        line.rpartition("Prefix cache hit rate: ")[2].strip()
        for line in (EVIDENCE / "engine.log").read_text().splitlines()
        if "Prefix cache hit rate" in line
    ]
    assert rates == ["0.0%"] * 3


def test_the_stages_are_those_of_the_manifest() -> None:
    manifest = json.loads((EVIDENCE / "streamproof.json").read_bytes())
    stages = json.loads((EVIDENCE / "stages.json").read_bytes())
    assert manifest["audited"]
    assert [stage["stage"] for stage in manifest["stages"]] == ["calibrate", "export", "carry", "audit"]
    for stage in manifest["stages"][:3]:
        assert stages[stage["stage"]]["parameters"] == stage["parameters"]
        assert stages[stage["stage"]]["written_bytes"] == sum(file["size"] for file in stage["outputs"].values())
    said = (EVIDENCE / "quantize.log").read_text()
    for name in ("calibrate", "export", "carry"):
        assert f"{name}: {stages[name]['seconds']:.1f} s" in said


def test_it_is_small() -> None:
    assert sum(path.stat().st_size for path in EVIDENCE.iterdir()) < 300_000
