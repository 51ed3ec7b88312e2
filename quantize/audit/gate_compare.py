"""Gates 4 and 5: what was quantized is near the source, and what was not is the source, byte by byte.

The bound of gate 4 follows from the format. In units of its block's scale a value x is stored as the nearest of 0, 0.5,
1, 1.5, 2, 3, 4, 6, so its error is at most 1/4 up to 2, 1/2 up to 4 and 1 up to 6. Max calibration puts the block's
largest value at 6, or, since the scale is rounded to E4M3, between 6 * 17/18 = 5.67 and 6 * 17/16 = 6.375. What makes
the relative error largest is such a value at 5.67 (error 1/3) beside 15 that all lie halfway between 4 and 6:

    sqrt((15 * 1^2 + (1/3)^2) / (15 * 5^2 + 5.67^2)) = 0.193

(halfway between 2 and 3 gives 0.18, at 1/4 0.17). No tensor can be worse, whatever its values; normally distributed
ones are at 0.09 to 0.10. Blocks below 2^-15 of the tensor's amax have coarser scales, but are too small to count. A
scale that is chosen by mean squared error only lowers the error. The angle between weight and source has a sine of at
most the relative error, hence a cosine of at least sqrt(1 - 0.193^2) = 0.98.

Beyond this, every single value must round to the code that stands for it, and where nearly all block scales are those
of max calibration, all have to be: that finds single bytes, which no sum over a tensor shows.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from bench.report.verify_files import shown
from quantize.audit.diagnose import diagnose
from quantize.audit.measure import LIMIT
from quantize.audit.model import NAMED, Gate, GateName
from quantize.audit.scene import Findings, Scene, not_checked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantize.audit.measure import Distance
    from quantize.audit.model import Figure

MAX_CALIBRATED: Final = 0.99
"""Share of blocks above which a tensor counts as max calibrated; a search over scales leaves a small minority there."""
REWRITTEN: Final = frozenset({"quantization_config", "transformers_version", "_name_or_path"})
"""Keys of config.json that an exporter writes anew."""
NO_SOURCE: Final = "no source was named (--source)"


def dequantized_gate(scene: Scene) -> Gate:
    """Gate 4: dequantized weights beside the source, tensor by tensor."""
    if scene.original is None:
        return not_checked(GateName.DEQUANTIZED, NO_SOURCE)
    findings = Findings(GateName.DEQUANTIZED)
    compared = {m: found.distance for m, found in scene.linears.items() if found.distance is not None}
    for module, distance in compared.items():
        reasons = _reasons(distance)
        if reasons and findings.count < NAMED and (cause := diagnose(scene, module, LIMIT)):
            reasons.append(cause)
        if reasons:
            findings.add(f"{module}.weight", "; ".join(reasons))
    left_out = len(scene.contents.quantized) - len(compared)
    if left_out:
        findings.notes.append(f"{left_out:,} quantized linears could not be compared; other gates say why")
    return findings.gate(
        f"every weight is within the format's rounding of the source (limit {LIMIT:.3f})",
        "dequantized weights are not the source's",
        _figures(compared),
        unchecked="" if compared else "no quantized linear could be compared with the source",
    )


def _reasons(distance: Distance) -> list[str]:
    relative = distance.relative
    if not relative <= LIMIT:  # also where it is NaN
        cosine = f", cosine {distance.cosine:.4f}" if not math.isnan(distance.cosine) else ""
        return [f"relative error {relative:.3f}{cosine}; the format allows {LIMIT:.3f}"]
    reasons = []
    if distance.outside:
        reasons.append(f"{distance.outside:,} values do not round to the codes that stand for them")
    usual = distance.blocks - distance.near_scales - distance.other_scales
    if distance.other_scales and usual + distance.near_scales >= MAX_CALIBRATED * distance.blocks:
        reasons.append(
            f"{distance.other_scales:,} block scales are not those of max calibration, as all the others are"
        )
    return reasons


def _figures(compared: dict[str, Distance]) -> dict[str, Figure]:
    errors = {module: found.relative for module, found in compared.items() if math.isfinite(found.relative)}
    if not errors:
        return {"weights compared": len(compared)}
    ranked = sorted(errors.values())
    worst = max(errors, key=lambda module: errors[module])
    blocks = sum(found.blocks for found in compared.values())
    other = sum(found.near_scales + found.other_scales for found in compared.values())
    cosines = [found.cosine for found in compared.values() if not math.isnan(found.cosine)]
    return {
        "weights compared": len(compared),
        "median relative error": round(ranked[len(ranked) // 2], 6),
        "largest relative error": round(errors[worst], 6),
        "the largest is of": worst,
        "smallest cosine": round(min(cosines), 6) if cosines else None,
        "block scales of max calibration": round((blocks - other) / blocks, 6),
    }


def unquantized_gate(scene: Scene) -> Gate:
    """Gate 5: every unquantized tensor is the source's, byte by byte, and config.json describes the same model."""
    if scene.original is None:
        return not_checked(GateName.UNQUANTIZED, NO_SOURCE)
    findings = Findings(GateName.UNQUANTIZED)
    originals = scene.original.contents.plain
    absent = 0
    for name, tensor in scene.contents.plain.items():
        other, result = originals.get(name), scene.copies.get(name)
        if other is None:
            absent += 1
        elif other.dtype != tensor.dtype:
            findings.add(name, f"is {tensor.dtype}; the source has {other.dtype}")
        elif other.shape != tensor.shape:
            findings.add(name, f"has the shape {list(tensor.shape)}; the source has {list(other.shape)}")
        elif result is not None and result.differing:
            findings.add(name, f"{result.differing:,} bytes differ from the source, the first at {result.first:,}")
    for key, here, there in _changed(scene.checkpoint.config, scene.original.checkpoint.config):
        findings.add("config.json", f"has {shown(key)} {here!a:.60}; the source has {there!a:.60}")
    if absent:
        findings.notes.append(f"{absent:,} tensors are not in the source; gate 1 names them")
    lost = sorted(_keys(scene.original.checkpoint.config) - _keys(scene.checkpoint.config) - REWRITTEN)
    if lost:
        findings.notes.append(f"config.json lacks {len(lost)} keys of the source's, e.g. {shown(lost[0])}")
    equal = [result for result in scene.copies.values() if not result.differing]
    figures = {
        "tensors equal": len(equal),
        "bytes equal": sum(scene.contents.plain[result.name].size for result in equal),
        "of these MTP": sum(result.name.startswith("mtp.") for result in equal),
    }
    return findings.gate(
        "every unquantized tensor is the source's, byte by byte", "unquantized tensors differ from the source", figures
    )


def _changed(here: dict[str, Any], there: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, object, object]]:
    """Keys that both configurations have, with other values: what the engine builds is then another model."""
    for key in sorted((here.keys() & there.keys()) - REWRITTEN):
        ours, theirs = here[key], there[key]
        if isinstance(ours, dict) and isinstance(theirs, dict):
            yield from _changed(ours, theirs, f"{prefix}{key}.")
        elif ours != theirs:
            yield f"{prefix}{key}", ours, theirs


def _keys(config: dict[str, Any], prefix: str = "") -> set[str]:
    found = set()
    for key, value in config.items():
        found.add(f"{prefix}{key}")
        if isinstance(value, dict):
            found |= _keys(value, f"{prefix}{key}.")
    return found
