"""Says why a dequantized weight is not its source: tries the mistakes that are known to happen.

Each is tried on a few rows: undoing the right one brings the relative error from near 1 or more to near 0.1.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from quantize.audit import numbers
from quantize.audit.measure import LinearJob, read, read_rows, source_floats
from quantize.audit.scene import Scene, extent, linear_job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROWS: Final = 32
"""Rows that are looked at."""
EXPERTS: Final = 512
"""Experts of a layer that are tried at most."""
_EXPERT: Final = re.compile(r"(.*\.experts\.)(\d+)(\..*)")


def diagnose(scene: Scene, module: str, limit: float) -> str:
    """What is wrong with a weight.

    Args:
        scene: that it belongs to.
        module: the linear.
        limit: relative error from which on a weight counts as right.

    Returns:
        "its nibbles are swapped" and the like; empty where none of the known mistakes explains it.
    """
    job = linear_job(scene, module)
    if job is None or job.source is None:
        return ""
    count = min(ROWS, job.rows)
    packed, source = read_rows(job, 0, count)
    whole = np.frombuffer(read(job.scale), np.uint8).reshape(job.rows, -1)
    scale = numbers.E4M3[whole[:count]]
    weight = source_floats(source)

    def is_right(packed: numbers.Bytes, scale: numbers.Floats, weight: numbers.Floats) -> bool:
        step = np.repeat(scale * np.float32(job.scale_2), numbers.BLOCK, axis=1)
        error = numbers.unpack(packed) * step - weight
        return bool(np.linalg.norm(error) <= limit * np.linalg.norm(weight))

    with np.errstate(all="ignore"):  # a wrong guess may overflow, and is no guess then
        for says, arranged in _arrangements(packed, whole, count):
            if is_right(*arranged, weight):
                return says
        for says, other in _other_sources(scene, module, job):
            if is_right(packed, scale, other(count)):
                return says
    return ""


def _arrangements(
    packed: numbers.Bytes, whole: numbers.Bytes, count: int
) -> Iterator[tuple[str, tuple[numbers.Bytes, numbers.Floats]]]:
    """The same bytes, laid out otherwise."""
    scale = numbers.E4M3[whole[:count]]
    swapped = ((packed >> 4) | (packed << 4)).astype(np.uint8)
    yield "its nibbles are swapped: the even index belongs into the low one", (swapped, scale)
    if (plain := unswizzled(whole)) is not None:
        yield "its block scales are swizzled for a kernel", (packed, numbers.E4M3[plain[:count]])


def unswizzled(scales: numbers.Bytes) -> numbers.Bytes | None:
    """Undoes the layout that block-scaled tensor-core kernels take: tiles of 128 rows by 4 scales.

    Within a tile row r lies at (r % 32, r // 32), as in cuBLAS's documentation of 1-D block scaling.

    Args:
        scales: [rows, columns].

    Returns:
        None where the shape does not divide into tiles.
    """
    rows, columns = scales.shape
    if rows % 128 or columns % 4:
        return None
    tiles = scales.reshape(rows // 128, columns // 4, 32, 4, 4)
    return np.ascontiguousarray(tiles.transpose(0, 3, 2, 1, 4)).reshape(rows, columns)


def _other_sources(scene: Scene, module: str, job: LinearJob) -> Iterator[tuple[str, Callable[[int], numbers.Floats]]]:
    """Sources of the same shape that the weight might have been taken from."""
    prefix, _, leaf = module.rpartition(".")
    for here, there in (("gate_proj", "up_proj"), ("up_proj", "gate_proj")):
        if leaf == here and (read_it := _source(scene, f"{prefix}.{there}", job)):
            yield f"it is {there}: gate and up are swapped", read_it
    if (match := _EXPERT.fullmatch(module)) is None:
        return
    for expert in range(EXPERTS):
        other = f"{match[1]}{expert}{match[3]}"
        if other != module and (read_it := _source(scene, other, job)):
            yield f"it is expert {expert}'s: experts are permuted", read_it


def _source(scene: Scene, module: str, job: LinearJob) -> Callable[[int], numbers.Floats] | None:
    tensor = scene.source_weight(module)
    if (
        tensor is None
        or scene.original is None
        or (tensor.shape, tensor.dtype)
        != (
            (job.rows, job.columns),
            job.source_dtype,
        )
    ):
        return None
    there = replace(job, source=extent(scene.original.checkpoint, tensor))
    return lambda count: source_floats(read_rows(there, 0, count)[1])
