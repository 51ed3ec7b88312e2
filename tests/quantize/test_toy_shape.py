"""The toy's shape: small enough, wide enough for the engine's kernels, and complete."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from quantize.toy.shape import TOY, model_config, tensor_shapes, text_config


def test_parameters_fit_eight_megabytes_in_bf16() -> None:
    parameters = sum(math.prod(dimensions) for dimensions in tensor_shapes(TOY).values())
    assert 2 * parameters < 8_000_000 - 64 * 1024  # the header of a safetensors file is far below 64 KiB


def test_every_linear_layer_fits_blocks_of_16_and_all_large_ones_blocks_of_64() -> None:
    matrices = {name: size for name, size in tensor_shapes(TOY).items() if len(size) >= 2 and "conv1d" not in name}
    for name, size in matrices.items():
        assert size[-1] % 64 == 0, name
        assert size[-2] % 64 == 0 or size[-2] <= TOY.experts, name  # routers and gates are never quantized


def test_three_gated_delta_net_layers_then_attention() -> None:
    assert TOY.layer_types == ["linear_attention"] * 3 + ["full_attention"]
    names = tensor_shapes(TOY)
    assert "model.language_model.layers.2.linear_attn.A_log" in names
    assert "model.language_model.layers.3.self_attn.q_proj.weight" in names
    assert "model.language_model.layers.3.linear_attn.A_log" not in names


def test_decoder_experts_are_fused_and_draft_experts_apart_as_published() -> None:
    names = tensor_shapes(TOY)
    assert names["model.language_model.layers.0.mlp.experts.gate_up_proj"] == (8, 128, 256)
    assert names["model.language_model.layers.0.mlp.experts.down_proj"] == (8, 256, 64)
    assert names["mtp.layers.0.mlp.experts.7.gate_proj.weight"] == (64, 256)
    # The published 35B-A3B has 785 mtp tensors: 768 of its 256 experts, and 17 others.
    published = replace(TOY, experts=256)
    assert sum(name.startswith("mtp.") for name in tensor_shapes(published)) == 785


def test_rotated_pairs_are_all_assigned_to_a_section() -> None:
    assert sum(TOY.mrope_section) == TOY.head_dim * TOY.rotary_factor / 2


def test_configuration_names_the_architecture_that_the_engine_registers() -> None:
    config = model_config(TOY, end_token_id=2, pad_token_id=0, vision_token_id=3)
    assert config["architectures"] == ["Qwen3_5MoeForConditionalGeneration"]
    assert config["text_config"] == text_config(TOY, end_token_id=2, pad_token_id=0)
    assert config["text_config"]["eos_token_id"] == 2
    assert config["text_config"]["pad_token_id"] == 0
    assert config["text_config"]["mtp_num_hidden_layers"] == 1
    assert [config[f"{name}_token_id"] for name in ("image", "video", "vision_start", "vision_end")] == [3, 4, 5, 6]


@given(layers=st.integers(1, 12), interval=st.integers(1, 6))
def test_every_layer_has_exactly_one_mixer(layers: int, interval: int) -> None:
    names = tensor_shapes(replace(TOY, layers=layers, attention_interval=interval))
    for index in range(layers):
        prefix = f"model.language_model.layers.{index}."
        attends = f"{prefix}self_attn.o_proj.weight" in names
        assert attends != (f"{prefix}linear_attn.out_proj.weight" in names)
        assert attends == ((index + 1) % interval == 0)
