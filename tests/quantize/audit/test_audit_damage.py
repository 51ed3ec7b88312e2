"""Each gate on a deliberately damaged copy: that gate fails, and no other."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantize.audit.model import GateName
from quantize.audit.run import audit_checkpoint
from tests.quantize.audit.auditing import audited, failing, offence
from tests.quantize.audit.synthetic import (
    E4M3_POSITIVE,
    TEXT,
    Folder,
    Tensors,
    bf16,
    floats,
    matrices,
    nearest_e2m1,
    quantize,
    scale_2_of,
    source_tensors,
)

EXPERT = f"{TEXT}layers.0.mlp.experts.2."
GATE, UP, DOWN = f"{EXPERT}gate_proj", f"{EXPERT}up_proj", f"{EXPERT}down_proj"
SHARED = f"{TEXT}layers.1.mlp.shared_expert."
QUERY = f"{TEXT}layers.1.self_attn.q_proj"
KEY_SCALE = f"{TEXT}layers.1.self_attn.k_proj.k_scale"


def set_byte(name: str, value: int) -> Callable[[Folder], None]:
    """Sets byte 7 of a tensor."""

    def damage(folder: Folder) -> None:
        folder.tensors[name][1].view(np.uint8).reshape(-1)[7] = value

    return damage


def set_value(name: str, value: float) -> Callable[[Folder], None]:
    def damage(folder: Folder) -> None:
        folder.tensors[name] = ("F32", np.array(value, np.float32))

    return damage


def drop(*beginnings: str) -> Callable[[Folder], None]:
    def damage(folder: Folder) -> None:
        for name in [name for name in folder.tensors if name.startswith(beginnings)]:
            del folder.tensors[name]

    return damage


def add(name: str, dtype: str, values: Any) -> Callable[[Folder], None]:
    def damage(folder: Folder) -> None:
        folder.tensors[name] = (dtype, values)

    return damage


def change(name: str, how: Callable[[str, Any], tuple[str, Any]]) -> Callable[[Folder], None]:
    def damage(folder: Folder) -> None:
        folder.tensors[name] = how(*folder.tensors[name])

    return damage


def both_lists(how: Callable[[list[str]], object]) -> Callable[[Folder], None]:
    def damage(folder: Folder) -> None:
        how(folder.ignore())
        how(folder.exclude())

    return damage


def declare(**values: object) -> Callable[[Folder], None]:
    def damage(folder: Folder) -> None:
        assert folder.hf_quant_config is not None
        folder.hf_quant_config["quantization"] |= values

    return damage


def leave_out(module: str) -> Callable[[Folder], None]:
    """Leaves a linear unquantized, and says so."""

    def damage(folder: Folder) -> None:
        drop(f"{module}.weight", f"{module}.input_scale")(folder)
        folder.tensors[f"{module}.weight"] = source_tensors()[f"{module}.weight"]
        both_lists(lambda names: names.append(module))(folder)

    return damage


def forget_legacy(folder: Folder) -> None:
    folder.hf_quant_config = None


DAMAGES: list[Any] = [
    # gate 1
    pytest.param(drop(f"{EXPERT}"), GateName.INVENTORY, f"{EXPERT}down_proj.weight is missing", id="an expert"),
    pytest.param(drop(f"{UP}.input_scale"), GateName.INVENTORY, "up_proj.input_scale is missing", id="an input_scale"),
    pytest.param(drop(f"{UP}.weight_scale_2"), GateName.INVENTORY, "weight_scale_2 is missing", id="a weight_scale_2"),
    pytest.param(drop("mtp.fc"), GateName.INVENTORY, "mtp.fc.weight is missing", id="an MTP tensor"),
    pytest.param(drop("mtp."), GateName.INVENTORY, "whole multi-token prediction head is missing (29", id="all of MTP"),
    pytest.param(drop("model.visual.blocks.0.norm1"), GateName.INVENTORY, "norm1.bias is missing", id="a vision norm"),
    pytest.param(
        add(f"{TEXT}layers.2.norm.weight", "BF16", bf16(np.ones(4))),
        GateName.INVENTORY,
        "not in the source",
        id="extra",
    ),
    pytest.param(
        add(f"{TEXT}layers.0.linear_attn.k_proj.k_scale", "F32", np.array(1, np.float32)),
        GateName.INVENTORY,
        "k_scale is not in the source",
        id="a KV scale of a layer without KV cache",
    ),
    # gate 2
    pytest.param(
        change(f"{GATE}.weight_scale", lambda dtype, values: (dtype, np.ascontiguousarray(values.T))),
        GateName.SIZES,
        "is F8_E4M3 [4, 32], not F8_E4M3 [32, 4]",
        id="transposed scales",
    ),
    pytest.param(change(f"{GATE}.weight", lambda _, v: ("I8", v)), GateName.SIZES, "is I8 [32, 32], not U8", id="I8"),
    pytest.param(
        change(f"{GATE}.weight_scale", lambda _, v: ("U8", v)), GateName.SIZES, "is U8 [32, 4], not F8", id="U8 scales"
    ),
    pytest.param(
        change(f"{GATE}.input_scale", lambda _, v: ("F32", np.tile(v, 2))),
        GateName.SIZES,
        "not one F32",
        id="2 scalars",
    ),
    pytest.param(
        change(f"{GATE}.weight_scale_2", lambda _, v: ("F64", v.astype(np.float64))), GateName.SIZES, "F64 []", id="F64"
    ),
    # gate 3
    *(
        pytest.param(set_byte(f"{GATE}.weight_scale", byte), GateName.SCALES, says, id=f"scale byte {byte:#x}")
        for byte, says in ((0x00, "0x00 (zero) in row 1, block 3"), (0x7F, "NaN"), (0x80, "negative"), (0xFF, "NaN"))
    ),
    *(
        pytest.param(set_value(f"{name}", value), GateName.SCALES, "not a positive number", id=f"{part} {value}")
        for part, name in (("input_scale", f"{DOWN}.input_scale"), ("weight_scale_2", f"{DOWN}.weight_scale_2"))
        for value in (0.0, -1.0, math.inf, math.nan)
    ),
    # gate 4
    pytest.param(set_byte(f"{GATE}.weight_scale", 0x60), GateName.DEQUANTIZED, "do not round", id="a valid scale byte"),
    pytest.param(
        change(
            f"{GATE}.weight", lambda dtype, values: (dtype, values ^ np.pad([[0x88]], ((0, 31), (0, 31))).astype("u1"))
        ),
        GateName.DEQUANTIZED,
        "2 values do not round to the codes that stand for them",
        id="signs",
    ),
    # gate 5
    pytest.param(
        set_byte("mtp.fc.weight", 0x55), GateName.UNQUANTIZED, "1 bytes differ from the source", id="MTP byte"
    ),
    pytest.param(set_byte("lm_head.weight", 0x55), GateName.UNQUANTIZED, "the first at 7", id="lm_head byte"),
    pytest.param(
        change(f"{TEXT}norm.weight", lambda _, v: ("F32", floats(v))),
        GateName.UNQUANTIZED,
        "the source has BF16",
        id="F32",
    ),
    pytest.param(
        lambda f: f.config["text_config"].update(num_experts_per_tok=3),
        GateName.UNQUANTIZED,
        "has text_config.num_experts_per_tok 3; the source has 2",
        id="a configuration of another model",
    ),
    # gate 6
    pytest.param(lambda f: f.ignore().append("x"), GateName.IGNORED, "in config.json, not in hf", id="a list more"),
    pytest.param(
        lambda f: f.exclude().append("x"), GateName.IGNORED, "in hf_quant_config.json, not in", id="the other"
    ),
    pytest.param(
        both_lists(lambda names: names.append(f"{SHARED}*")),
        GateName.IGNORED,
        "is quantized, and ignored by",
        id="ignored",
    ),
    pytest.param(
        both_lists(lambda names: names.remove(f"{TEXT}layers.0.mlp.gate")),
        GateName.IGNORED,
        "mlp.gate is BF16, and not ignored",
        id="a router that is not ignored",
    ),
    pytest.param(
        both_lists(lambda names: names.append("mlp.experts")),
        GateName.IGNORED,
        "vLLM 0.26.0 reads it as",
        id="a substring",
    ),
    pytest.param(
        leave_out(f"{TEXT}layers.1.self_attn.v_proj"), GateName.IGNORED, "only partly quantized", id="one of q, k and v"
    ),
    pytest.param(forget_legacy, GateName.IGNORED, "hf_quant_config.json is missing", id="one file"),
    pytest.param(declare(quant_algo="FP8"), GateName.IGNORED, "has quant_algo NVFP4", id="algorithms differ"),
    pytest.param(declare(kv_cache_quant_algo=None), GateName.IGNORED, "KV cache's format FP8", id="KV caches differ"),
    pytest.param(declare(group_size=32), GateName.IGNORED, "declares groups of 32", id="group size"),
    # gate 7
    pytest.param(drop(KEY_SCALE), GateName.KV_CACHE, "k_scale is missing; other layers", id="one KV scale"),
    pytest.param(set_value(KEY_SCALE, 0.0), GateName.KV_CACHE, "is 0, not a positive number", id="a zero KV scale"),
]


@pytest.mark.parametrize(("damage", "gate", "says"), DAMAGES)
def test_each_damage_fails_its_gate_and_no_other(
    damage: Callable[[Folder], None], gate: GateName, says: str, *, sound: Folder, source: Path, tmp_path: Path
) -> None:
    folder = sound.copy()
    damage(folder)
    audit = audited(folder, tmp_path, source)
    assert failing(audit) == {gate}
    assert says in offence(audit, gate)
    assert not audit.passed
    assert audit.exit_code == 3


def requantized(folder: Folder, tensors: Tensors, module: str, scale_2: float) -> None:
    """Quantizes a linear again, consistently, with another `weight_scale_2`."""
    packed, scales = quantize(floats(matrices(tensors)[module]), scale_2)
    folder.tensors[f"{module}.weight"] = ("U8", packed)
    folder.tensors[f"{module}.weight_scale"] = ("F8_E4M3", scales)
    folder.tensors[f"{module}.weight_scale_2"] = ("F32", np.array(scale_2, np.float32))


@pytest.mark.parametrize(
    ("module", "others"),
    [
        (GATE, "gate_proj"),
        (f"{SHARED}up_proj", "up_proj"),
        (QUERY, "q_proj"),
        (f"{TEXT}layers.0.linear_attn.in_proj_z", "z"),
    ],
)
def test_packed_layers_must_share_their_scale(
    module: str, others: str, *, sound: Folder, tensors: Tensors, source: Path, tmp_path: Path
) -> None:
    folder = sound.copy()
    requantized(folder, tensors, module, float(scale_2_of([floats(matrices(tensors)[module])])) * 1.25)
    audit = audited(folder, tmp_path, source)
    assert failing(audit) == {GateName.SCALES}
    assert "differs from those that are packed with it" in offence(audit, GateName.SCALES)
    assert others in offence(audit, GateName.SCALES)


def test_a_scale_that_is_not_amax_over_2688(sound: Folder, tensors: Tensors, source: Path, tmp_path: Path) -> None:
    folder = sound.copy()
    requantized(folder, tensors, DOWN, float(scale_2_of([floats(matrices(tensors)[DOWN])])) * 1.25)
    audit = audited(folder, tmp_path, source)
    assert failing(audit) == {GateName.SCALES}
    assert "the source's amax / 2688 is" in offence(audit, GateName.SCALES)


def test_four_over_six_is_a_scale_of_modelopt(sound: Folder, tensors: Tensors, source: Path, tmp_path: Path) -> None:
    folder = sound.copy()
    requantized(folder, tensors, DOWN, float(scale_2_of([floats(matrices(tensors)[DOWN])])) * 448 / 256)
    assert failing(audited(folder, tmp_path, source)) == set()


def swap_nibbles(folder: Folder) -> None:
    dtype, values = folder.tensors[f"{QUERY}.weight"]
    folder.tensors[f"{QUERY}.weight"] = (dtype, (values >> 4) | (values << 4))


def swizzle(folder: Folder) -> None:
    dtype, values = folder.tensors[f"{QUERY}.weight_scale"]
    rows, columns = values.shape
    tiles = values.reshape(rows // 128, 4, 32, columns // 4, 4).transpose(0, 3, 2, 1, 4)
    folder.tensors[f"{QUERY}.weight_scale"] = (dtype, np.ascontiguousarray(tiles).reshape(rows, columns))


def swap_gate_and_up(folder: Folder) -> None:
    exchange(folder, GATE, UP)


def permute_experts(folder: Folder) -> None:
    exchange(folder, DOWN, DOWN.replace("experts.2.", "experts.0."))


def exchange(folder: Folder, one: str, other: str) -> None:
    for part in ("weight", "weight_scale", "weight_scale_2", "input_scale"):
        here, there = f"{one}.{part}", f"{other}.{part}"
        folder.tensors[here], folder.tensors[there] = folder.tensors[there], folder.tensors[here]


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (swap_nibbles, "its nibbles are swapped"),
        (swizzle, "its block scales are swizzled"),
        (swap_gate_and_up, "gate and up are swapped"),
        (permute_experts, "it is expert 2's: experts are permuted"),
    ],
)
def test_a_weight_that_is_not_its_source_is_told_why(
    damage: Callable[[Folder], None], says: str, sound: Folder, source: Path, tmp_path: Path
) -> None:
    folder = sound.copy()
    damage(folder)
    audit = audited(folder, tmp_path, source)
    assert failing(audit) == {GateName.DEQUANTIZED}
    reasons = " ".join(offender.reason for offender in audit.gate(GateName.DEQUANTIZED).offenders)
    assert "the format allows 0.193" in reasons
    assert says in reasons


def test_all_offenders_are_counted_and_the_first_named(sound: Folder, source: Path, tmp_path: Path) -> None:
    folder = sound.copy()
    for name in list(folder.tensors):
        if name.endswith(".input_scale"):
            set_value(name, 0.0)(folder)
    gate = audited(folder, tmp_path, source).gate(GateName.SCALES)
    assert gate.offending == 37
    assert len(gate.offenders) == 20


def test_keys_that_an_exporter_leaves_out_are_a_note(sound: Folder, source: Path, tmp_path: Path) -> None:
    folder = sound.copy()
    del folder.config["text_config"]["attention_bias"]
    folder.config["transformers_version"] = "5.14.1"
    audit = audited(folder, tmp_path, source)
    assert audit.passed
    note = "config.json lacks 1 keys of the source's, e.g. text_config.attention_bias"
    assert audit.gate(GateName.UNQUANTIZED).notes == (note,)


def test_a_wrong_total_size_in_the_index(sound: Folder, source: Path, tmp_path: Path) -> None:
    folder = sound.copy()
    original_write = folder.write(tmp_path / "written")
    index = original_write / "model.safetensors.index.json"
    index.write_text(index.read_text().replace('"total_size": ', '"total_size": 9'))
    audit = audit_checkpoint(original_write, source=source, processes=1)
    assert failing(audit) == {GateName.SIZES}
    assert "says total_size 9" in offence(audit, GateName.SIZES)


def test_a_block_with_a_scale_of_its_own(sound: Folder, tensors: Tensors, source: Path, tmp_path: Path) -> None:
    """Its values round right in that scale; only the other blocks show that it is not the calibration's."""
    folder = sound.copy()
    scale_2 = float(folder.tensors[f"{GATE}.weight_scale_2"][1])
    row = floats(matrices(tensors)[GATE])[3:4].copy()
    row[0, 16] = 2 * np.abs(row).max()  # a larger value than there is, for a larger scale
    _, scales = quantize(row, scale_2)
    values = row[0, 16:32] / (E4M3_POSITIVE[scales[0, 1]] * scale_2)
    values[0] *= floats(matrices(tensors)[GATE])[3, 16] / row[0, 16]
    codes = np.array([nearest_e2m1(float(value)) for value in values], np.uint8)
    folder.tensors[f"{GATE}.weight"][1][3, 8:16] = codes[0::2] | (codes[1::2] << 4)
    folder.tensors[f"{GATE}.weight_scale"][1][3, 1] = scales[0, 1]
    audit = audited(folder, tmp_path, source)
    assert failing(audit) == {GateName.DEQUANTIZED}
    assert "1 block scales are not those of max calibration" in offence(audit, GateName.DEQUANTIZED)


def test_a_source_in_f32_is_compared_too(sound: Folder, tensors: Tensors, tmp_path: Path) -> None:
    wide: Tensors = {name: ("F32", floats(values)) for name, (_, values) in tensors.items()}
    audit = audited(sound, tmp_path, Folder(wide).write(tmp_path / "source"))
    assert failing(audit) == {GateName.UNQUANTIZED}  # it was not carried over byte by byte
    assert audit.gate(GateName.DEQUANTIZED).figures["weights compared"] == 37


def test_unequal_input_scales_of_packed_layers_are_a_note(sound: Folder, source: Path, tmp_path: Path) -> None:
    folder = sound.copy()
    set_value(f"{UP}.input_scale", 0.5)(folder)
    audit = audited(folder, tmp_path, source)
    assert audit.passed
    note = "1 groups of packed layers have unequal input scales; vLLM takes the largest"
    assert audit.gate(GateName.SCALES).notes == (note,)


@pytest.mark.parametrize("value", [math.nan, math.inf, 3e38])
def test_a_source_that_is_no_number_is_named_without_a_warning(
    value: float, sound: Folder, tensors: Tensors, tmp_path: Path
) -> None:
    broken = dict(tensors)
    name = f"{TEXT}layers.0.mlp.experts.down_proj"
    broken[name] = ("BF16", tensors[name][1].copy())
    broken[name][1][2, 3, 5] = bf16(np.array([value]))[0]
    audit = audited(sound, tmp_path, Folder(broken).write(tmp_path / "source"))
    assert failing(audit) == {GateName.DEQUANTIZED}
    assert audit.gate(GateName.DEQUANTIZED).offenders[0].name == f"{DOWN}.weight"


def test_a_scale_as_large_as_can_be_overflows_without_a_warning(sound: Folder, source: Path, tmp_path: Path) -> None:
    folder = sound.copy()
    set_value(f"{DOWN}.weight_scale_2", 3e38)(folder)
    assert GateName.DEQUANTIZED in failing(audited(folder, tmp_path, source))
