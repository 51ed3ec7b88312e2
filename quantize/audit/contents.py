"""Sorts a checkpoint's tensors: quantized linears with their four parts, KV-cache scales, and everything else.

A model's experts come in two layouts: one matrix an expert, or all experts of a layer in one fused tensor
(`experts.gate_up_proj` [experts, 2 * width, hidden], gate above up; `experts.down_proj` [experts, hidden, width]). A
fused tensor is taken apart here, into matrices that lie at their place in the file, so that nothing after this knows of
two layouts.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from quantize.audit.header import Tensor

PARTS: Final = ("weight", "weight_scale", "weight_scale_2", "input_scale")
"""Of a quantized linear, by the end of their names."""
SCALES: Final = PARTS[1:]
KV_SCALES: Final = (".k_proj.k_scale", ".v_proj.v_scale")
KV_ENDINGS: Final = (".k_scale", ".v_scale")
_FUSED: Final = {".experts.gate_up_proj": ("gate_proj", "up_proj"), ".experts.down_proj": ("down_proj",)}
_FUSED_DIMENSIONS: Final = 3


@dataclass(slots=True)
class Contents:
    """What a checkpoint consists of.

    Attributes:
        quantized: the parts of every linear that has a packed weight or a scale, by module and part.
        kv_scales: by name.
        plain: everything else, fused experts taken apart, by name.
        fused: names of the tensors that were taken apart.
    """

    quantized: dict[str, dict[str, Tensor]] = field(default_factory=dict)
    kv_scales: dict[str, Tensor] = field(default_factory=dict)
    plain: dict[str, Tensor] = field(default_factory=dict)
    fused: list[str] = field(default_factory=list)

    def holds(self, module: str) -> bool:
        """Whether a linear is there at all, quantized or not."""
        return module in self.quantized or f"{module}.weight" in self.plain


def sort_tensors(tensors: Iterable[Tensor]) -> Contents:
    """Sorts them."""
    contents = Contents()
    weights: list[Tensor] = []
    for tensor in tensors:
        module, _, part = tensor.name.rpartition(".")
        if part in SCALES or (part == "weight" and tensor.dtype == "U8"):
            contents.quantized.setdefault(module, {})[part] = tensor
        elif tensor.name.endswith(KV_ENDINGS):
            contents.kv_scales[tensor.name] = tensor
        elif part == "weight":
            weights.append(tensor)
        elif matrices := list(_taken_apart(tensor)):
            contents.fused.append(tensor.name)
            contents.plain.update((matrix.name, matrix) for matrix in matrices)
        else:
            contents.plain[tensor.name] = tensor
    for tensor in weights:
        module = tensor.name.removesuffix(".weight")
        if module in contents.quantized:  # it has scales, whatever the type of its weight
            contents.quantized[module]["weight"] = tensor
        else:
            contents.plain[tensor.name] = tensor
    return contents


def _taken_apart(tensor: Tensor) -> Iterator[Tensor]:
    """The matrices of a fused tensor of experts; none for any other tensor."""
    ending = next((ending for ending in _FUSED if tensor.name.endswith(ending)), None)
    if ending is None or len(tensor.shape) != _FUSED_DIMENSIONS or 0 in tensor.shape:
        return
    projections = _FUSED[ending]
    experts, rows, columns = tensor.shape
    if rows % len(projections):
        return
    prefix = tensor.name.removesuffix(ending)
    size = tensor.size // (experts * len(projections))
    for place in range(experts * len(projections)):
        expert, projection = divmod(place, len(projections))
        yield replace(
            tensor,
            name=f"{prefix}.experts.{expert}.{projections[projection]}.weight",
            shape=(rows // len(projections), columns),
            offset=tensor.offset + place * size,
            size=size,
        )
