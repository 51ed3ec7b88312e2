"""Gate 3: every scale is a positive number, and layers that the engine packs into one share theirs."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

import numpy as np

from quantize.audit import numbers
from quantize.audit.model import Gate, GateName
from quantize.audit.scene import Findings, Scene, is_scale

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from quantize.audit.header import Tensor

PACKED: Final = (
    ("gate_proj", "up_proj"),
    ("q_proj", "k_proj", "v_proj"),
    ("in_proj_qkv", "in_proj_z"),
)
"""Layers that vLLM packs into one: it takes one `weight_scale_2` for all of them (the largest for linears, gate's for
experts), so that any other dequantizes with a wrong scale."""
EXACT: Final = 1e-6
"""Relative difference that two float32 roundings of the same quotient can have."""


def scales_gate(scene: Scene) -> Gate:
    """Gate 3: bytes in range, scalars finite and positive, packed layers alike, `weight_scale_2` = amax / 2688."""
    findings = Findings(GateName.SCALES)
    for module, result in scene.linears.items():
        if result.first_bad is not None:
            row, block, byte = result.first_bad
            meaning = "zero" if byte == 0 else "NaN" if byte in (0x7F, 0xFF) else "negative"
            where = f"the first is 0x{byte:02X} ({meaning}) in row {row}, block {block}"
            findings.add(f"{module}.weight_scale", f"{result.bad_scales:,} bytes that must not occur; {where}")
    _check_scalars(scene, findings)
    _check_packed(scene, findings)
    _check_amax(scene, findings)
    figures = {
        "block scales": sum(
            parts["weight_scale"].size for parts in scene.contents.quantized.values() if "weight_scale" in parts
        ),
        **_span(scene, "weight_scale_2"),
        **_span(scene, "input_scale"),
    }
    _note_inputs(scene, findings)
    return findings.gate(
        "every scale is a positive number, and packed layers share theirs", "scales are broken", figures
    )


def _check_scalars(scene: Scene, findings: Findings) -> None:
    for parts in scene.contents.quantized.values():
        for part in ("weight_scale_2", "input_scale"):
            value = _value(scene, parts.get(part))
            if value is not None and not is_scale(value):
                findings.add(parts[part].name, f"is {value:g}, not a positive number")


def _value(scene: Scene, tensor: Tensor | None) -> float | None:
    """Of a scalar; None where there is none, which other gates name."""
    return None if tensor is None else scene.scalars.get(tensor.name)


def packed_groups(modules: Sequence[str]) -> Iterator[list[str]]:
    """Those of the given modules that vLLM packs with each other, at least two at a time."""
    by_place: dict[tuple[str, int], list[str]] = defaultdict(list)
    for module in modules:
        prefix, _, leaf = module.rpartition(".")
        for number, leaves in enumerate(PACKED):
            if leaf in leaves:
                by_place[prefix, number].append(module)
    yield from (group for group in by_place.values() if len(group) > 1)


def _scale_2(scene: Scene, module: str) -> float | None:
    """A linear's `weight_scale_2`, where it is a scale."""
    value = _value(scene, scene.contents.quantized[module].get("weight_scale_2"))
    return value if value is not None and is_scale(value) else None


def _check_packed(scene: Scene, findings: Findings) -> None:
    for group in packed_groups(list(scene.contents.quantized)):
        scales = {module: value for module in group if (value := _scale_2(scene, module)) is not None}
        if len(set(scales.values())) > 1:
            values = ", ".join(f"{module.rpartition('.')[2]} {value:g}" for module, value in scales.items())
            findings.add(f"{group[0]}.weight_scale_2", f"differs from those that are packed with it: {values}")


def _check_amax(scene: Scene, findings: Findings) -> None:
    """`weight_scale_2` is the largest absolute value of the packed layers over 2688 (or 1536 for "four over six")."""
    amax = {module: found.distance.amax for module, found in scene.linears.items() if found.distance is not None}
    together = {module: max(amax.get(m, 0.0) for m in group) for group in packed_groups(list(amax)) for module in group}
    for module, own in amax.items():
        largest, scale = together.get(module, own), _scale_2(scene, module)
        if scale is None or _is_packed_apart(scene, module) or scene.linears[module].is_another_weight:
            continue
        divisors = (numbers.AMAX_PER_SCALE_2, numbers.AMAX_PER_SCALE_2_FOUR_OVER_SIX)
        if not any(abs(scale - largest / divisor) <= EXACT * scale for divisor in divisors):
            right = np.float32(largest / numbers.AMAX_PER_SCALE_2)
            findings.add(f"{module}.weight_scale_2", f"is {scale:g}; the source's amax / 2688 is {right:g}")


def _is_packed_apart(scene: Scene, module: str) -> bool:
    """Whether `_check_packed` has named this one's group already."""
    prefix, _, leaf = module.rpartition(".")
    for leaves in PACKED:
        if leaf in leaves:
            members = [f"{prefix}.{other}" for other in leaves if f"{prefix}.{other}" in scene.contents.quantized]
            return len({_scale_2(scene, member) for member in members}) > 1
    return False


def _span(scene: Scene, part: str) -> dict[str, float | None]:
    values = (_value(scene, parts.get(part)) for parts in scene.contents.quantized.values())
    sound = [value for value in values if value is not None and is_scale(value)]
    if not sound:
        return {f"smallest {part}": None, f"largest {part}": None}
    return {f"smallest {part}": min(sound), f"largest {part}": max(sound)}


def _note_inputs(scene: Scene, findings: Findings) -> None:
    """Unequal input scales of packed layers are no fault: vLLM takes the largest, which clips nothing."""
    unequal = 0
    for group in packed_groups(list(scene.contents.quantized)):
        values = {_value(scene, scene.contents.quantized[module].get("input_scale")) for module in group}
        unequal += len(values - {None}) > 1
    if unequal:
        findings.notes.append(f"{unequal:,} groups of packed layers have unequal input scales; vLLM takes the largest")
