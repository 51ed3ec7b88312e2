import math

import pytest

from quantize.audit.folder import open_checkpoint
from quantize.checkpoint import TOY
from quantize.shapes.plan import SHARD_BYTES, configuration, shards


def test_the_full_size_is_the_published_one() -> None:
    planned = shards(configuration({}))
    tensors = {spec.name: spec.shape for group in planned for spec in group}
    assert sum(name.startswith("mtp.") for name in tensors) == 785
    assert tensors["model.language_model.layers.39.mlp.experts.gate_up_proj"] == (256, 1024, 2048)
    assert tensors["lm_head.weight"] == (248_320, 2048)
    assert any(name.startswith("model.visual.") for name in tensors)
    sizes = [2 * sum(math.prod(spec.shape) for spec in group) for group in planned]
    assert sum(sizes) == pytest.approx(71.9e9, rel=0.001)
    assert max(sizes) <= SHARD_BYTES


def test_names_and_shapes_are_those_of_a_real_checkpoint_of_the_family() -> None:
    toy = open_checkpoint(TOY)
    changes = {
        key: value
        for key, value in toy.config["text_config"].items()
        if type(value) is int and key in configuration({})["text_config"]
    }
    planned = {spec.name: spec.shape for group in shards(configuration(changes)) for spec in group}
    assert {name: tensor.shape for name, tensor in toy.tensors.items()} == {
        name: shape for name, shape in planned.items() if "visual" not in name and name != "lm_head.weight"
    }


def test_an_unknown_size() -> None:
    with pytest.raises(ValueError, match="text_config has no layers"):
        configuration({"layers": 1})
