"""What a checkpoint's configuration says of its size, and whether it is one that can be quantized here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from bench.errors import StreamproofError
from quantize.audit.family import inventory_of

MODEL_TYPE: Final = "qwen3_5_moe"
BYTES_BF16: Final = 2
BLOCK: Final = 16
"""Values that share a scale in NVFP4."""
PICKLES: Final = frozenset({".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"})
"""Endings of files that run code when they are loaded."""

_SOURCE_REMEDY: Final = (
    "Name the BF16 checkpoint that it was made from, e.g. --set source.repository=Qwen/Qwen3.5-35B-A3B"
)


@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """Sizes of a Qwen3.5-MoE model.

    Attributes:
        layers: decoder layers.
        hidden: width of the residual stream.
        experts: routed experts of a layer.
        expert_width: inner width of one.
        gdn_width: all value heads of a Gated DeltaNet layer side by side.
        active_parameters: of the decoder, that one token visits.
        layer_bytes: of the largest decoder layer, in BF16.
        total_bytes: of the whole checkpoint, in BF16.
        expert_values: of all routed experts of the decoder.
    """

    layers: int
    hidden: int
    experts: int
    expert_width: int
    gdn_width: int
    active_parameters: int
    layer_bytes: int
    total_bytes: int
    expert_values: int


def check_config(config: dict[str, Any], where: str) -> ModelShape:
    """The sizes of a model that can be quantized here.

    Args:
        config: its `config.json`.
        where: for the error.

    Raises:
        StreamproofError: it is quantized already, has no experts, or is of another family.
    """
    text = config.get("text_config", config)
    if not isinstance(text, dict):
        raise StreamproofError(f"{where}: text_config is no table", remedy=_SOURCE_REMEDY)
    for quantized in (config.get("quantization_config"), text.get("quantization_config")):
        if quantized:
            method = quantized.get("quant_method", "unknown") if isinstance(quantized, dict) else "unknown"
            raise StreamproofError(
                f"{where} is quantized already (quantization_config, method {method}): scales made from rounded "
                "weights would be wrong without anybody noticing",
                remedy=_SOURCE_REMEDY,
            )
    if not text.get("num_experts"):
        raise StreamproofError(
            f"{where} is no mixture of experts (model_type {config.get('model_type')}); every preset is made for one",
            remedy=_SOURCE_REMEDY,
        )
    inventory = inventory_of(config)
    if inventory is None or config.get("model_type") not in (MODEL_TYPE, f"{MODEL_TYPE}_text"):
        raise StreamproofError(
            f"{where} is a {config.get('model_type')} model; this knows the layout of {MODEL_TYPE} only",
            remedy="Quantize it with ModelOpt's own example; `just quantize audit` checks the outcome all the same.",
        )
    dtype = config.get("dtype", text.get("dtype", config.get("torch_dtype", text.get("torch_dtype"))))
    if dtype not in (None, "bfloat16"):
        raise StreamproofError(f"{where} has weights in {dtype}, not in bfloat16", remedy=_SOURCE_REMEDY)
    return _shape(text, {name: math.prod(shape) for name, shape in inventory.plain_shapes().items()}, where)


def check_names(names: list[str], where: str) -> None:
    """Refuses files that run code when they are loaded.

    Raises:
        StreamproofError: there is one, or there are no safetensors at all.
    """
    pickles = sorted(name for name in names if any(name.lower().endswith(ending) for ending in PICKLES))
    if pickles:
        raise StreamproofError(
            f"{where} has pickle files, which run code when they are loaded: {', '.join(pickles[:5])}",
            remedy="Use a repository with safetensors only, or remove them from a copy of the folder.",
        )
    if not any(name.endswith(".safetensors") for name in names):
        raise StreamproofError(
            f"{where} has no safetensors files",
            remedy="Name the folder or the repository of a BF16 checkpoint in safetensors.",
        )


def _shape(text: dict[str, Any], values: dict[str, int], where: str) -> ModelShape:
    layers, experts, width = text["num_hidden_layers"], text["num_experts"], text["moe_intermediate_size"]
    hidden = text["hidden_size"]
    if hidden % BLOCK or width % BLOCK:
        raise StreamproofError(
            f"{where}: NVFP4 needs widths that are multiples of {BLOCK}; these are {hidden} and {width}",
            remedy="There is no such format for this model.",
        )
    per_layer = [
        sum(n for name, n in values.items() if f"layers.{i}." in name and "mtp" not in name) for i in range(layers)
    ]
    routed = 3 * experts * width * hidden
    visited = 3 * text["num_experts_per_tok"] * width * hidden
    return ModelShape(
        layers=layers,
        hidden=hidden,
        experts=experts,
        expert_width=width,
        gdn_width=text.get("linear_num_value_heads", 0) * text.get("linear_value_head_dim", 0),
        active_parameters=sum(n - routed + visited for n in per_layer),
        layer_bytes=max(per_layer) * BYTES_BF16,
        total_bytes=sum(values.values()) * BYTES_BF16,
        expert_values=routed * layers,
    )
