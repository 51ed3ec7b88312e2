"""A model's configuration, read; what is missing or strange names itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.errors import UsageError
from bench.explain.preflight.shapes import read_config, shapes_of
from tests.explain.preflight.planned import FULL_SIZE, full_size, toy


def config(**text: Any) -> dict[str, Any]:
    raw: dict[str, Any] = json.loads(FULL_SIZE.read_text())
    raw["text_config"] |= text
    return raw


def test_the_full_size_model() -> None:
    shapes = full_size()
    assert (shapes.gdn_layers, shapes.attention_layers, shapes.mtp_layers) == (30, 10, 1)
    assert shapes.experts is not None
    assert (shapes.experts.count, shapes.experts.per_token, shapes.experts.width) == (256, 8, 512)
    assert (shapes.rotary, shapes.tied, shapes.state_bytes) == (64, False, 4)
    assert toy().tied


def test_layers_that_are_not_listed_are_filled_in_as_transformers_does() -> None:
    raw = config(full_attention_interval=4)
    listed = shapes_of(raw, "x").layer_types
    del raw["text_config"]["layer_types"]
    assert shapes_of(raw, "x").layer_types == listed


def test_a_dense_model_has_an_mlp() -> None:
    raw = config(intermediate_size=9728) | {"architectures": ["Qwen3_5ForConditionalGeneration"]}
    shapes = shapes_of(raw, "x")
    assert shapes.experts is None
    assert shapes.mlp_width == 9728


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"hidden_size": None}, "hidden_size"),
        ({"num_experts": 0}, "num_experts is 0"),
        ({"num_experts": True}, "num_experts is True"),
        ({"num_key_value_heads": "2"}, "num_key_value_heads"),
        ({"layer_types": ["linear_attention"] * 40}, "layer_types"),
        ({"layer_types": ["full_attention"]}, "layer_types"),
        ({"layer_types": ["sliding_attention"] * 40}, "layer_types"),
        ({"dtype": "float32"}, "float32"),
        ({"mamba_ssm_dtype": "int8"}, "int8"),
    ],
)
def test_what_cannot_be_is_refused_by_name(change: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says) as refused:
        shapes_of(config(**change), "config.json")
    assert "config.json" in refused.value.message
    assert refused.value.remedy


def test_a_key_that_is_missing_is_named() -> None:
    raw = config()
    del raw["text_config"]["moe_intermediate_size"]
    with pytest.raises(UsageError, match="has no moe_intermediate_size"):
        shapes_of(raw, "config.json")


@pytest.mark.parametrize("architectures", [["LlamaForCausalLM"], [], None])
def test_an_unknown_architecture_is_refused(architectures: object) -> None:
    with pytest.raises(UsageError, match="memory is not known") as refused:
        shapes_of(config() | {"architectures": architectures}, "config.json")
    assert "Qwen3_5MoeForConditionalGeneration" in refused.value.remedy


@pytest.mark.parametrize("content", [b"\xff\xfe", b"[1]", b"{", b""])
def test_a_file_that_is_no_configuration_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="config"):
        read_config(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_config(tmp_path / "config.json")
