"""Which tensors a checkpoint of given shapes has, in which shards, and what is random in each. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from quantize.audit.family import inventory_of

if TYPE_CHECKING:
    from collections.abc import Mapping

SHAPE: Final = Path(__file__).parent / "qwen3.5-35b-a3b" / "config.json"
SHARD_BYTES: Final = 4_000_000_000
BYTES: Final = 2
_EXPERT: Final = re.compile(r"(model\..+\.experts)\.(\d+)\.(gate|up|down)_proj\.weight")
_LAYER: Final = re.compile(r"model\.(?:language_model\.)?layers\.(\d+)\.")


@dataclass(frozen=True, slots=True)
class Spec:
    """A tensor to be.

    Attributes:
        name: in the checkpoint.
        shape: its dimensions.
        mean: of its normal distribution.
        deviation: of its normal distribution.
    """

    name: str
    shape: tuple[int, ...]
    mean: float
    deviation: float


def configuration(changes: Mapping[str, int]) -> dict[str, Any]:
    """The configuration of the full-size model, with some sizes of its language model changed.

    Args:
        changes: key of `text_config` to its value.

    Raises:
        ValueError: there is no such key.
    """
    config: dict[str, Any] = json.loads(SHAPE.read_text(encoding="utf-8"))
    text = config["text_config"]
    for key, value in changes.items():
        if key not in text:
            raise ValueError(f"text_config has no {key}")
        text[key] = value
    text["layer_types"] = [text["layer_types"][index % 4] for index in range(text["num_hidden_layers"])]
    config["vision_config"]["out_hidden_size"] = text["hidden_size"]
    return config


def shards(config: dict[str, Any]) -> list[list[Spec]]:
    """All tensors, named and fused as in the published checkpoint: a shard a decoder layer, then the rest.

    Raises:
        ValueError: the configuration is not one of this family.
    """
    inventory = inventory_of(config)
    if inventory is None:
        raise ValueError("this is no configuration of Qwen3.5")
    by_layer: dict[int, list[Spec]] = {}
    rest: list[list[Spec]] = []
    used = SHARD_BYTES
    for name, shape in _fused(inventory.plain_shapes()).items():
        spec = _spec(name, shape)
        layer = _LAYER.match(name)
        if layer:
            by_layer.setdefault(int(layer[1]), []).append(spec)
            continue
        size = BYTES
        for extent in shape:
            size *= extent
        if used + size > SHARD_BYTES:
            rest.append([])
            used = 0
        rest[-1].append(spec)
        used += size
    return [by_layer[index] for index in sorted(by_layer)] + rest


def _fused(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """The decoder's experts as one tensor a projection; those of multi-token prediction stay apart."""
    experts: dict[str, int] = {}
    found: dict[str, tuple[int, ...]] = {}
    for name, shape in shapes.items():
        expert = _EXPERT.fullmatch(name)
        if expert is None:
            found[name] = shape
            continue
        experts[expert[1]] = max(experts.get(expert[1], 0), int(expert[2]) + 1)
        if expert[3] == "gate":
            found[f"{expert[1]}.gate_up_proj"] = (2 * shape[0], shape[1])
        elif expert[3] == "down":
            found[f"{expert[1]}.down_proj"] = shape
    for module, count in experts.items():
        for projection in ("gate_up_proj", "down_proj"):
            found[f"{module}.{projection}"] = (count, *found[f"{module}.{projection}"])
    return found


def _spec(name: str, shape: tuple[int, ...]) -> Spec:
    """Distributions under which activations keep their size from layer to layer."""
    if name.endswith(("A_log", "dt_bias")):
        return Spec(name, shape, 1.0, 0.1)
    if name.endswith("linear_attn.norm.weight") or ("visual" in name and "norm" in name and name.endswith("weight")):
        return Spec(name, shape, 1.0, 0.02)  # a plain scale; the others are zero-centred
    return Spec(name, shape, 0.0, 0.02)
