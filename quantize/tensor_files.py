"""Writes safetensors files without torch: tensors are ranges of bytes in files that are there already, or in memory.

The layout is the format's own: 8 bytes of header length, a JSON header padded with spaces to 8 bytes, the tensors
without gaps (https://github.com/huggingface/safetensors). Wide types come first, so that every tensor is aligned.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final

from bench.report.folder_files import beside, put
from quantize.audit.header import BITS, LENGTH_BYTES, Tensor

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

_ALIGNMENT: Final = 8
_CHUNK: Final = 16 << 20
_METADATA: Final = {"format": "pt"}
"""What loaders of PyTorch models look for."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A tensor in a file.

    Attributes:
        file: the safetensors file.
        tensor: where in it.
    """

    file: Path
    tensor: Tensor


@dataclass(frozen=True, slots=True)
class InMemory:
    """A tensor at hand.

    Attributes:
        name: of it.
        dtype: the format's name of its type.
        shape: its dimensions.
        content: little-endian, row by row.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    content: bytes


def copy_tensors(path: Path, tensors: Iterable[Placed]) -> None:
    """Writes a file with the bytes of other files' tensors, whole or not at all.

    Raises:
        OSError: the disk is full, or a file cannot be read or has become shorter.
    """
    ordered = _ordered(tensors)
    header = _header([(p.tensor.name, p.tensor.dtype, p.tensor.shape, p.tensor.size) for p in ordered])
    temporary = beside(path)
    try:
        with temporary.open("xb") as out:
            out.write(header)
            for placed in ordered:
                _copy(placed, out)
        put(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_tensor(path: Path, tensor: InMemory) -> None:
    """Writes a file with one tensor, whole or not at all.

    Raises:
        OSError: the disk is full.
    """
    temporary = beside(path)
    try:
        with temporary.open("xb") as out:
            out.write(_header([(tensor.name, tensor.dtype, tensor.shape, len(tensor.content))]))
            out.write(tensor.content)
        put(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def file_size(tensors: Iterable[Placed]) -> int:
    """Bytes that `copy_tensors` would write."""
    entries = [(p.tensor.name, p.tensor.dtype, p.tensor.shape, p.tensor.size) for p in _ordered(tensors)]
    return len(_header(entries)) + sum(size for *_, size in entries)


def _ordered(tensors: Iterable[Placed]) -> list[Placed]:
    return sorted(tensors, key=lambda placed: (-BITS[placed.tensor.dtype], placed.tensor.name))


def _header(entries: Sequence[tuple[str, str, tuple[int, ...], int]]) -> bytes:
    header: dict[str, object] = {"__metadata__": _METADATA}
    offset = 0
    for name, dtype, shape, size in entries:
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    raw = json.dumps(header, separators=(",", ":")).encode()
    raw += b" " * (-len(raw) % _ALIGNMENT)
    return len(raw).to_bytes(LENGTH_BYTES, "little") + raw


def _copy(placed: Placed, out: BinaryIO) -> None:
    descriptor = os.open(placed.file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        at, end = placed.tensor.offset, placed.tensor.offset + placed.tensor.size
        while at < end:
            chunk = os.pread(descriptor, min(_CHUNK, end - at), at)
            if not chunk:
                raise OSError(0, "the file became shorter while it was read", str(placed.file))
            out.write(chunk)
            at += len(chunk)
    finally:
        os.close(descriptor)
