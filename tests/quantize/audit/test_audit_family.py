from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bench.engine.pins import REPOSITORY
from quantize.audit.contents import sort_tensors
from quantize.audit.family import Inventory, inventory_of
from quantize.audit.folder import open_checkpoint
from quantize.audit.run import audit_checkpoint
from tests.quantize.audit import synthetic

SHAPES = REPOSITORY / "quantize" / "shapes" / "qwen3.5-35b-a3b-fp8" / "config.json"
TOY = REPOSITORY / "quantize" / "toy" / "checkpoint"


def of(path: Path) -> Inventory:
    inventory = inventory_of(json.loads(path.read_text()))
    assert inventory is not None
    return inventory


def test_the_real_model_has_as_many_tensors_as_published() -> None:
    inventory = of(SHAPES)
    parts = Counter(linear.part for linear in inventory.linears.values())
    assert parts["experts"] == 40 * 256 * 3 == 30_720
    assert len(inventory.attention) == 10
    assert sum(name.startswith("mtp.") for name in inventory.plain_shapes()) == 785
    size = sum(2 * linear.rows * linear.columns for linear in inventory.linears.values())
    assert size / 1e9 == pytest.approx(71.9, abs=1.2)  # 72 GB with the embedding


def test_the_toy_has_exactly_the_tensors_of_its_config() -> None:
    inventory, contents = of(TOY / "config.json"), sort_tensors(open_checkpoint(TOY).tensors.values())
    expected = {name: shape for name, shape in inventory.plain_shapes().items() if not name.startswith("model.visual.")}
    assert {name: tensor.shape for name, tensor in contents.plain.items()} == expected
    assert len(contents.fused) == 8


def test_the_synthetic_model_has_exactly_the_tensors_of_its_config() -> None:
    inventory = inventory_of(synthetic.config())
    assert inventory is not None
    assert inventory.plain_shapes() == synthetic.shapes(fused=False)


def test_a_dense_model_has_one_mlp_a_layer() -> None:
    config = synthetic.config()
    config["model_type"] = "qwen3_5"
    del config["text_config"]["num_experts"]
    config["text_config"]["intermediate_size"] = 96
    inventory = inventory_of(config)
    assert inventory is not None
    assert inventory.name == "Qwen3.5"
    assert inventory.plain_shapes()["model.language_model.layers.0.mlp.gate_proj.weight"] == (96, synthetic.HIDDEN)
    assert not any("experts" in module for module in inventory.linears)


def test_a_text_model_has_other_names_and_no_vision() -> None:
    text = synthetic.config()["text_config"]
    inventory = inventory_of(text)
    assert inventory is not None
    assert "model.layers.0.linear_attn.A_log" in inventory.others
    assert inventory.vision == ""


@pytest.mark.parametrize(
    "change",
    [
        {"hidden_size": "64"}, {"hidden_size": -1}, {"hidden_size": True}, {"num_hidden_layers": 10**9},
        {"layer_types": ["linear_attention"]}, {"layer_types": ["a", "b"]}, {"num_experts": 10**9}, {"head_dim": None},
    ],
)  # fmt: skip
def test_sizes_from_outside_are_not_trusted(change: dict[str, Any]) -> None:
    config = synthetic.config()
    config["text_config"] |= change
    assert inventory_of(config) is None


@pytest.mark.parametrize("config", [{}, {"model_type": "llama"}, {"model_type": []}, {"model_type": "qwen3_5_moe"}])
def test_other_models_are_unknown(config: dict[str, Any]) -> None:
    assert inventory_of(config) is None


def test_a_vision_tower_that_nobody_has_is_not_expected(tmp_path: Path) -> None:
    text_only = {
        name: value for name, value in synthetic.source_tensors().items() if not name.startswith("model.visual")
    }
    folder = synthetic.exported(text_only).write(tmp_path / "checkpoint")
    audit = audit_checkpoint(folder, processes=1)
    assert audit.passed
    assert "serve with --language-model-only" in audit.gates[1].notes[0]
