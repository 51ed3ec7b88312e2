import json
from typing import Any

import pytest

from bench.errors import StreamproofError
from quantize.checkpoint import TOY
from quantize.model_shape import check_config, check_names
from quantize.shapes.plan import configuration


def toy() -> dict[str, Any]:
    config: dict[str, Any] = json.loads((TOY / "config.json").read_text())
    return config


def test_the_real_sizes() -> None:
    shape = check_config(configuration({}), "x")
    assert (shape.layers, shape.experts, shape.hidden) == (40, 256, 2048)
    assert shape.expert_values == 40 * 256 * 3 * 512 * 2048
    assert shape.total_bytes == pytest.approx(71.9e9, rel=0.001)
    # "A3B": three billion visited parameters, of which half a billion each are embedding and output.
    assert shape.active_parameters == pytest.approx(2.44e9, rel=0.01)


def test_a_quantized_model_is_refused() -> None:
    for place in (configuration({}), configuration({})["text_config"]):
        config = configuration({})
        target = config if place.get("architectures") else config["text_config"]
        target["quantization_config"] = {"quant_method": "fp8"}
        with pytest.raises(StreamproofError, match=r"quantized already .*fp8"):
            check_config(config, "x")


def test_a_dense_model_is_refused() -> None:
    with pytest.raises(StreamproofError, match="no mixture of experts"):
        check_config({"model_type": "llama", "hidden_size": 64}, "x")


def test_another_mixture_is_refused() -> None:
    with pytest.raises(StreamproofError, match="is a mixtral model"):
        check_config({"model_type": "mixtral", "num_experts": 8}, "x")


def test_other_weights_than_bf16_are_refused() -> None:
    with pytest.raises(StreamproofError, match="float16, not in bfloat16"):
        check_config(toy() | {"dtype": "float16"}, "x")


def test_widths_that_nvfp4_cannot_have() -> None:
    with pytest.raises(StreamproofError, match="multiples of 16; these are 256 and 40"):
        check_config(toy() | {"text_config": toy()["text_config"] | {"moe_intermediate_size": 40}}, "x")


def test_pickles_are_refused_and_named() -> None:
    with pytest.raises(StreamproofError, match=r"pickle files.*: pytorch_model\.BIN, x\.pth"):
        check_names(["model.safetensors", "x.pth", "pytorch_model.BIN"], "x")
    with pytest.raises(StreamproofError, match="no safetensors"):
        check_names(["config.json"], "x")
    check_names(["model.safetensors", "binary.json"], "x")
