from __future__ import annotations

from pathlib import Path

import pytest

from quantize.audit.model import GateName, Verdict
from tests.quantize.audit.auditing import audited, failing
from tests.quantize.audit.synthetic import PRESETS, Folder, Tensors, exported, source_tensors


@pytest.mark.parametrize("kv_cache", ["fp8", "fp8_cast"])
@pytest.mark.parametrize("preset", PRESETS)
def test_sound_checkpoints_pass_every_gate(
    preset: str, kv_cache: str, tensors: Tensors, source: Path, tmp_path: Path
) -> None:
    audit = audited(exported(tensors, preset, kv_cache), tmp_path, source)
    assert [(gate.name, gate.says, gate.offenders) for gate in audit.failed] == []
    assert audit.passed
    assert not audit.complete  # nobody served it
    checked = [gate.name for gate in audit.gates if gate.verdict is Verdict.PASSED]
    assert checked == [name for name in GateName if name is not GateName.SERVED]


@pytest.mark.parametrize("preset", PRESETS)
def test_without_a_source_what_needs_one_is_not_checked(preset: str, tensors: Tensors, tmp_path: Path) -> None:
    audit = audited(exported(tensors, preset), tmp_path)
    left_out = {gate.name for gate in audit.gates if gate.verdict is Verdict.NOT_CHECKED}
    assert left_out == {GateName.DEQUANTIZED, GateName.UNQUANTIZED, GateName.SERVED}
    assert audit.passed


def test_a_source_whose_experts_are_not_fused(tmp_path: Path) -> None:
    apart = source_tensors(3, fused=False)
    original = Folder(apart).write(tmp_path / "source")
    audit = audited(exported(apart, "nvfp4"), tmp_path, original)
    assert failing(audit) == set()
    assert audit.gate(GateName.DEQUANTIZED).figures["weights compared"] == 37
