"""Which tensors of the source a quantized checkpoint keeps, and what its configuration says. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from bench.errors import StreamproofError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

_EXPERT: Final = re.compile(r"(.+\.experts)\.\d+\.(gate|up|down)_proj\.weight")
_FUSED: Final = {"gate": "gate_up_proj", "up": "gate_up_proj", "down": "down_proj"}
MTP: Final = "mtp*"
"""Multi-token prediction, as a pattern of both ignore lists: without it engines take the head for quantized."""


def replaced(exported: Iterable[str], source: Collection[str]) -> set[str]:
    """The tensors of the source that the exported ones take the place of.

    Raises:
        StreamproofError: an exported weight belongs to nothing in the source.
    """
    found = set()
    for name in exported:
        if not name.endswith(".weight"):  # a scale: it comes with a weight, or is the KV cache's
            continue
        expert = _EXPERT.fullmatch(name)
        original = f"{expert[1]}.{_FUSED[expert[2]]}" if expert and name not in source else name
        if original not in source:
            raise StreamproofError(
                f"the export wrote {name}, and the source has no {original}",
                remedy="This is a fault of ours; please report it with the name of the checkpoint.",
            )
        found.add(original)
    return found


def ignored(named: Iterable[str], source: Collection[str], config: Mapping[str, Any]) -> list[str]:
    """The patterns of modules that are not quantized.

    Args:
        named: what ModelOpt says of the decoder's layers.
        source: names of all tensors of the source.
        config: the source's config.json.

    Returns:
        Sorted; what ModelOpt says and, since it never saw them, the output projection, the embedding, the vision tower
        and MTP.
    """
    embeddings = {name.removesuffix(".weight") for name in source if name.endswith("embed_tokens.weight")}
    vision = {"model.visual*"} if "vision_config" in config else set()
    return sorted({*named, *embeddings, *vision, "lm_head", MTP})


def with_ignored(
    hf_quant_config: Mapping[str, Any], quantization_config: Mapping[str, Any], patterns: list[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Both of ModelOpt's descriptions with the same patterns: `hf_quant_config.json`, and the one in `config.json`."""
    quantization = {**hf_quant_config["quantization"], "exclude_modules": patterns}
    return {**hf_quant_config, "quantization": quantization}, {**quantization_config, "ignore": patterns}


def shards(sizes: Mapping[str, int], limit: int) -> list[list[str]]:
    """Names in their order, in groups of at most `limit` bytes; a larger tensor has a group of its own."""
    groups: list[list[str]] = []
    used = 0
    for name, size in sizes.items():
        if not groups or used + size > limit:
            groups.append([])
            used = 0
        groups[-1].append(name)
        used += size
    return groups
