"""Reads the header of a safetensors file that anybody may have written.

A file is 8 bytes (header length, little-endian), a JSON header and the tensors' bytes. The format demands that the
tensors fill the rest without holes or overlaps; so does this reader, because whatever lies in a hole is checked by
nobody. Nothing of the tensors is read here.

Written by hand: the `safetensors` package reads a whole header into its own types, does not say where a tensor's
bytes lie, and turns every fault into one exception, while an audit has to name them all.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any, Final

from bench.report.verify_files import shown
from bench.report.verify_json import HostileJsonError, strict_loads

HEADER_LIMIT: Final = 100_000_000
"""Bytes; the reference implementation refuses longer ones too."""
LENGTH_BYTES: Final = 8
BITS: Final = {
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32,
    "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}  # fmt: skip
"""Bits of one value by the format's name of its type."""
DIMENSIONS_LIMIT: Final = 16


@dataclass(frozen=True, slots=True)
class Tensor:
    """Where a tensor is.

    Attributes:
        name: in the file.
        dtype: as the format names it ("BF16", "U8", "F8_E4M3", "F32").
        shape: as declared.
        shard: file name within the folder.
        offset: of its first byte in that file.
        size: bytes.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    shard: str
    offset: int
    size: int


class HeaderError(ValueError):
    """The file is no sound safetensors file; the message says why, in words for people."""


def read_header(descriptor: int, size: int, shard: str) -> list[Tensor]:
    """The tensors of one file.

    Args:
        descriptor: open for reading.
        size: of the file in bytes.
        shard: its name, for the tensors.

    Raises:
        HeaderError: anything that the format forbids.
    """
    if size < LENGTH_BYTES:
        raise HeaderError(f"has {size} bytes: too short for a safetensors file")
    length = int.from_bytes(os.pread(descriptor, LENGTH_BYTES, 0), "little")
    if length > HEADER_LIMIT:
        raise HeaderError(f"says that its header has {length:,} bytes; the format allows {HEADER_LIMIT:,}")
    if length > size - LENGTH_BYTES:
        raise HeaderError(f"says that its header has {length:,} bytes, but the file has {size:,}: it was cut off")
    try:
        header = strict_loads(os.pread(descriptor, length, LENGTH_BYTES))
    except HostileJsonError as error:
        raise HeaderError(f"has a header that cannot be read: {error}") from error
    if not isinstance(header, dict):
        raise HeaderError("has a header that is no JSON object")
    _check_metadata(header.pop("__metadata__", {}))
    start = LENGTH_BYTES + length
    tensors = [_tensor(name, entry, shard, start) for name, entry in header.items()]
    _check_layout(tensors, start, size)
    return tensors


def _check_metadata(metadata: object) -> None:
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise HeaderError("has a __metadata__ that is no mapping of strings")


def _tensor(name: str, entry: Any, shard: str, start: int) -> Tensor:  # noqa: ANN401  whatever the JSON holds
    label = f"has a bad entry for {shown(name)!r}"
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise HeaderError(f"{label}: it needs dtype, shape and data_offsets, and nothing else")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in BITS:
        raise HeaderError(f"{label}: the type {str(dtype)[:20]!r} is unknown")
    if not _are_counts(shape) or len(shape) > DIMENSIONS_LIMIT:
        raise HeaderError(f"{label}: its shape is no list of at most {DIMENSIONS_LIMIT} counts")
    if not _are_counts(offsets) or len(offsets) != len(("begin", "end")) or offsets[0] > offsets[1]:
        raise HeaderError(f"{label}: its data_offsets are not [begin, end]")
    begin, end = offsets
    bits = math.prod(shape) * BITS[dtype]
    if bits != (end - begin) * 8:
        raise HeaderError(f"{label}: {dtype}{shape} needs {bits / 8:,g} bytes, but its offsets hold {end - begin:,}")
    return Tensor(name, dtype, tuple(shape), shard, start + begin, end - begin)


def _are_counts(value: object) -> bool:
    limit = 1 << 62
    return isinstance(value, list) and all(type(item) is int and 0 <= item < limit for item in value)


def _check_layout(tensors: list[Tensor], start: int, size: int) -> None:
    """The tensors must fill the file from the header's end to its own."""
    at, before = start, "the header"
    for tensor in sorted(tensors, key=lambda tensor: (tensor.offset, tensor.size)):
        if tensor.offset < at:
            raise HeaderError(f"has overlapping tensors: {shown(tensor.name)!r} begins inside {before}")
        if tensor.offset > at:
            raise HeaderError(f"has a hole of {tensor.offset - at:,} bytes before {shown(tensor.name)!r}")
        at, before = tensor.offset + tensor.size, repr(shown(tensor.name))
    if at > size:
        raise HeaderError(f"was cut off: its tensors end at byte {at:,}, the file at {size:,}")
    if at < size:
        raise HeaderError(f"has {size - at:,} bytes behind its last tensor")
