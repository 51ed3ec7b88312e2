"""Public threads about broken NVFP4 checkpoints: each one's checkpoint, made small, and the gate that finds it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from quantize.audit.model import GateName
from tests.quantize.audit.auditing import audited, failing, offence
from tests.quantize.audit.synthetic import TEXT, Folder, Tensors, exported, floats, matrices, quantize, scale_2_of

MLP = f"{TEXT}layers.0.mlp."


@pytest.fixture
def folder(tensors: Tensors) -> Folder:
    return exported(tensors)


def unquantized(folder: Folder, tensors: Tensors, layer: int) -> None:
    """Puts a layer's experts back as they were, fused, and leaves the declaration as it is."""
    prefix = f"{TEXT}layers.{layer}.mlp.experts."
    for name in [name for name in folder.tensors if name.startswith(prefix)]:
        del folder.tensors[name]
    for name in ("gate_up_proj", "down_proj"):
        folder.tensors[prefix + name] = tensors[prefix + name]


def test_model_optimizer_1255_and_1340_experts_left_at_bf16_size(
    folder: Folder, tensors: Tensors, source: Path, tmp_path: Path
) -> None:
    """The grouped matrix multiplication bypassed the hooks: experts were written unquantized, and nothing said so."""
    for layer in (0, 1):
        unquantized(folder, tensors, layer)
    audit = audited(folder, tmp_path, source)
    assert failing(audit) == {GateName.SIZES, GateName.IGNORED}
    assert "experts.0.gate_proj.weight is BF16, 4,096 bytes, and is declared NVFP4" in offence(audit, GateName.SIZES)
    figures = audit.gate(GateName.SIZES).figures
    assert figures["predicted bytes"] != figures["data bytes"]
    assert audit.gate(GateName.SIZES).offending == 24


def test_model_optimizer_1255_one_layer_of_many(folder: Folder, tensors: Tensors, source: Path, tmp_path: Path) -> None:
    unquantized(folder, tensors, 1)
    assert failing(audited(folder, tmp_path, source)) == {GateName.SIZES, GateName.IGNORED}


def test_model_optimizer_1382_zero_scales_of_experts_that_no_token_reached(
    folder: Folder, source: Path, tmp_path: Path
) -> None:
    for projection in ("gate_proj", "up_proj", "down_proj"):
        for part in ("weight_scale_2", "input_scale"):
            folder.tensors[f"{MLP}experts.3.{projection}.{part}"] = ("F32", np.array(0, np.float32))
    audit = audited(folder, tmp_path, source)
    assert failing(audit) == {GateName.SCALES}
    assert audit.gate(GateName.SCALES).offending == 6


@pytest.mark.parametrize("alone", ["gate_proj", "up_proj"])
def test_model_optimizer_1421_and_vllm_54150_gate_and_up_have_scales_of_their_own(
    alone: str, folder: Folder, tensors: Tensors, source: Path, tmp_path: Path
) -> None:
    """Both dequantize right by themselves; vLLM takes gate's scale for up."""
    module = f"{MLP}experts.1.{alone}"
    weight = floats(matrices(tensors)[module])
    scale_2 = np.float32(scale_2_of([weight]) * np.float32(0.75))
    packed, scales = quantize(weight, float(scale_2))
    folder.tensors[f"{module}.weight"] = ("U8", packed)
    folder.tensors[f"{module}.weight_scale"] = ("F8_E4M3", scales)
    folder.tensors[f"{module}.weight_scale_2"] = ("F32", np.array(scale_2))
    audit = audited(folder, tmp_path, source)
    assert GateName.SCALES in failing(audit)
    assert "differs from those that are packed with it: gate_proj" in offence(audit, GateName.SCALES)


def test_model_optimizer_1633_nan_bytes_in_weight_scale(folder: Folder, source: Path, tmp_path: Path) -> None:
    """A scale above 448 was cast without a clamp."""
    scale = folder.tensors[f"{MLP}experts.0.down_proj.weight_scale"][1]
    scale[5, 1] = 0x7F
    scale[9, 0] = 0x7F
    audit = audited(folder, tmp_path, source)
    assert failing(audit) == {GateName.SCALES}
    assert "2 bytes that must not occur; the first is 0x7F (NaN) in row 5, block 1" in offence(audit, GateName.SCALES)


@pytest.mark.parametrize("with_source", [True, False])
def test_model_optimizer_2427_mtp_is_missing_in_silence(
    with_source: bool, folder: Folder, source: Path, tmp_path: Path
) -> None:
    for name in [name for name in folder.tensors if name.startswith("mtp.")]:
        del folder.tensors[name]
    audit = audited(folder, tmp_path, source if with_source else None)
    assert failing(audit) == {GateName.INVENTORY}
    assert offence(audit, GateName.INVENTORY).startswith("mtp.* the whole multi-token prediction head is missing")
    assert audit.gate(GateName.INVENTORY).figures["MTP tensors"] == 0


def test_model_optimizer_1124_and_vllm_38832_mtp_fc_is_bf16_and_not_excluded(
    folder: Folder, source: Path, tmp_path: Path
) -> None:
    """`mtp.layers.0*` leaves out the layer and forgets `mtp.fc`: the loader meets BF16 where packed bytes belong."""
    for names in (folder.ignore(), folder.exclude()):
        names.remove("mtp*")
        names.append("mtp.layers.0*")
    audit = audited(folder, tmp_path, source)
    assert failing(audit) == {GateName.IGNORED}
    reasons = {offender.name: offender.reason for offender in audit.gate(GateName.IGNORED).offenders}
    assert reasons["mtp.fc"] == "is BF16, and not ignored"
    assert reasons["mtp*"] == "is not in the ignore list"


def quantized_head(folder: Folder, tensors: Tensors) -> None:
    weight = floats(tensors["lm_head.weight"][1])
    scale_2 = scale_2_of([weight])
    packed, scales = quantize(weight, float(scale_2))
    folder.tensors["lm_head.weight"] = ("U8", packed)
    folder.tensors["lm_head.weight_scale"] = ("F8_E4M3", scales)
    folder.tensors["lm_head.weight_scale_2"] = ("F32", np.array(scale_2))
    folder.tensors["lm_head.input_scale"] = ("F32", np.array(0.01, np.float32))


def test_vllm_45132_lm_head_is_quantized_and_excluded(
    folder: Folder, tensors: Tensors, source: Path, tmp_path: Path
) -> None:
    """The loader finds `lm_head.input_scale` and no parameter for it."""
    quantized_head(folder, tensors)
    audit = audited(folder, tmp_path, source)
    assert failing(audit) == {GateName.IGNORED}
    assert offence(audit, GateName.IGNORED) == "lm_head is quantized, and ignored by 'lm_head'"


def test_vllm_45132_a_quantized_lm_head_that_says_so_is_sound(
    folder: Folder, tensors: Tensors, source: Path, tmp_path: Path
) -> None:
    quantized_head(folder, tensors)
    for names in (folder.ignore(), folder.exclude()):
        names.remove("lm_head")
    assert failing(audited(folder, tmp_path, source)) == set()


def test_vllm_36094_sound_bytes_are_no_proof_of_accuracy(folder: Folder, source: Path, tmp_path: Path) -> None:
    """Its cause is open; nothing in the files shows it. So an audit without a run that served it is never complete."""
    audit = audited(folder, tmp_path, source)
    assert audit.passed
    assert not audit.complete
    assert audit.gate(GateName.SERVED).verdict == "not checked"
