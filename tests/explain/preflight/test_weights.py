"""Weights against files: the toy's own tensors to the number, and published sizes of the real model."""

from __future__ import annotations

import json
import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import UsageError
from bench.explain.preflight.quantization import Quantization, assumed_nvfp4, quantization_of
from bench.explain.preflight.weights import rotary_table_bytes, tensors_of, weights
from tests.explain.preflight.planned import TOY, full_size, toy

NVFP4_MLP = ("lm_head", "*linear_attn*", "*self_attn*", "*.mlp.gate", "*shared_expert_gate*", "mtp*", "*visual*")


def test_the_toy_has_exactly_these_numbers() -> None:
    with TOY.with_name("model.safetensors").open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    tensors = {name: entry["data_offsets"] for name, entry in header.items() if name != "__metadata__"}
    stored = sum(end - start for start, end in tensors.values())
    planned = weights(toy(), draft=True, vision=False)
    assert sum(part.total for part in planned) == stored
    assert sum(part.parameters for part in planned) == stored // 2 == 3_904_902
    draft = sum(end - start for name, (start, end) in tensors.items() if name.startswith("mtp."))
    assert next(part.total for part in planned if part.part == "MTP") == draft


def test_the_full_size_model_has_35_billion_parameters_of_which_3_are_active() -> None:
    parts = {part.part: part for part in weights(full_size(), draft=False, vision=False)}
    assert sum(part.parameters for part in parts.values()) == pytest.approx(34.66e9, rel=1e-3)
    assert parts["routed experts"].parameters * 8 / 256 == pytest.approx(1.0e9, rel=0.01)
    assert parts["routed experts"].scales == parts["routed experts"].parameters // 128**2 * 4


@pytest.mark.parametrize(
    ("quantization", "gigabytes"),
    [
        pytest.param(assumed_nvfp4(), 25.6, id="experts only"),
        pytest.param(
            Quantization(scheme="nvfp4", excluded=NVFP4_MLP, why="a list as ModelOpt writes it"), 25.4, id="MLP only"
        ),
        pytest.param(Quantization(scheme="bf16", why="as trained"), 72, id="BF16"),
    ],
)
def test_sizes_of_the_whole_checkpoint(quantization: Quantization, gigabytes: float) -> None:
    shapes = replace(full_size(), quantization=quantization)
    total = sum(part.total for part in weights(shapes, draft=True, vision=True))
    assert total == pytest.approx(gigabytes * 1e9, rel=0.01)


def test_nvfp4_takes_four_and_a_half_bits_and_two_scalars_a_linear() -> None:
    shapes = replace(full_size(), quantization=assumed_nvfp4())
    parts = {part.part: part for part in weights(shapes, draft=True, vision=False)}
    experts = parts["routed experts"]
    linears = 40 * 256 * 3
    assert experts.total == experts.parameters * 9 // 16 + linears * 8
    assert experts.plain == 0
    assert parts["MTP"].quantized == parts["attention"].quantized == parts["LM head"].quantized == 0


def test_what_a_checkpoint_excludes_stays_as_it_was() -> None:
    parts = {part.part: part for part in weights(full_size(), draft=True, vision=True)}
    assert parts["embedding"].quantized == parts["LM head"].quantized == parts["vision"].quantized == 0
    fc = next(tensor for tensor in tensors_of(full_size(), draft=True, vision=False) if tensor.module == "mtp.fc")
    assert not full_size().quantization.covers(fc.module)
    assert full_size().quantization.covers("mtp.layers.0.self_attn.q_proj")


def test_the_tower_and_the_draft_are_loaded_only_when_asked_for() -> None:
    names = {part.part for part in weights(full_size(), draft=False, vision=False)}
    assert names.isdisjoint({"MTP", "vision"})
    tower = next(part for part in weights(full_size(), draft=False, vision=True) if part.part == "vision")
    assert tower.parameters == pytest.approx(0.454e9, rel=0.01)


def test_positions_of_three_parts_need_a_table_four_times_as_long() -> None:
    plain = full_size()
    assert rotary_table_bytes(replace(plain, multimodal_rope=True)) == 4 * rotary_table_bytes(plain) == 4 * 2**25


@given(rows=st.integers(1, 5000), columns=st.integers(1, 5000))
def test_fewer_bits_are_fewer_bytes(rows: int, columns: int) -> None:
    nvfp4, fp8, bf16 = (
        sum(Quantization(scheme=scheme, block=(128, 128), why="x").bytes_of(rows, columns))
        for scheme in ("nvfp4", "fp8", "bf16")
    )
    assert fp8 >= rows * columns
    assert bf16 == 2 * rows * columns
    if rows * columns >= 64 * 64 and columns >= 16:
        assert nvfp4 < fp8 < bf16


@pytest.mark.parametrize(
    ("config", "scheme", "covered"),
    [
        (None, "bf16", False),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8", True),
        ({"quant_method": "fp8", "modules_to_not_convert": ["model.layers.1.mlp"]}, "fp8", False),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]}, "nvfp4", True),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "exclude_modules": ["*.mlp.*"]}, "nvfp4", False),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8", True),
    ],
)
def test_quantization_as_checkpoints_say_it(config: object, scheme: str, *, covered: bool) -> None:
    found = quantization_of(config, "config.json")
    assert found.scheme == scheme
    assert found.covers("model.layers.1.mlp.up_proj") is covered


@pytest.mark.parametrize(
    ("entry", "module", "meant"),
    [
        ("lm_head", "lm_head", True),
        ("visual", "model.visual.blocks.0.attn.qkv", True),
        ("mtp*", "mtp.layers.0.mlp.experts.0.up_proj", True),
        ("mtp.layers.0*", "mtp.fc", False),
        ("*.mlp.experts", "model.language_model.layers.3.mlp.experts.0.up_proj", True),
        ("*.mlp.experts.*", "model.language_model.layers.3.mlp.experts.0.up_proj", True),
        ("*.mlp.experts", "model.language_model.layers.3.mlp.shared_expert.up_proj", False),
        ("model.layers.0.linear_attn*", "model.language_model.layers.0.linear_attn.out_proj", True),
        ("model.language_model.layers.1", "model.language_model.layers.1.self_attn.q_proj", True),
        ("model.language_model.layers.1", "model.language_model.layers.11.self_attn.q_proj", False),
        ("gate", "model.language_model.layers.1.mlp.shared_expert_gate", False),
    ],
)
def test_entries_of_exclusion_lists(entry: str, module: str, *, meant: bool) -> None:
    found = Quantization(scheme="nvfp4", excluded=(entry,), why="a list")
    assert found.covers(module) is not meant


@pytest.mark.parametrize(
    "config",
    [
        {"quant_method": "awq"},
        {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"},
        {"quant_method": "fp8", "weight_block_size": 128},
        {"quant_method": "fp8", "weight_block_size": [0, 128]},
        "fp8",
    ],
)
def test_other_quantization_is_refused(config: object) -> None:
    with pytest.raises(UsageError, match=r"quantization|weight_block_size") as refused:
        quantization_of(config, "config.json")
    assert refused.value.remedy
