"""The bytes of a log, a piece at a time: a file, a gzip, standard input. What is no text is refused with advice."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Final

from bench.errors import StreamproofError

STDIN: Final = Path("-")
PIECE: Final = 1 << 20
"""Bytes read at once."""

_GZIP: Final = b"\x1f\x8b"
_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS
"""What zlib calls "with a gzip header"."""
_KINDS: Final = (
    (b"\x28\xb5\x2f\xfd", "compressed with zstd", "zstd -dc FILE | just doctor -"),
    (b"\xfd7zXZ\x00", "compressed with xz", "xz -dc FILE | just doctor -"),
    (b"BZh", "compressed with bzip2", "bzip2 -dc FILE | just doctor -"),
    (b"PK\x03\x04", "a zip archive", "unzip -p FILE | just doctor -"),
    (b"\xff\xfe", "UTF-16 text", "iconv -f UTF-16 -t UTF-8 FILE | just doctor -"),
    (b"\xfe\xff", "UTF-16 text", "iconv -f UTF-16 -t UTF-8 FILE | just doctor -"),
)
_TAR: Final = (b"ustar", 257)
_MOST_ZEROS: Final = 0.05
"""Share of NUL bytes at a file's beginning from which on it is no text. A log that was cut by copytruncate begins with
NULs throughout, and is text after them: those are skipped first."""


def size(path: Path) -> int | None:
    """Bytes to read; None where that is not known beforehand."""
    try:
        return None if path == STDIN else path.stat().st_size
    except OSError:
        return None


def pieces(path: Path, on_read: Callable[[int], None] | None = None) -> Iterator[bytes]:
    """The bytes of a log in pieces of at most `PIECE`, unpacked where it is a gzip.

    Args:
        path: a file, or `STDIN`.
        on_read: hears how many bytes were read, before unpacking, since its last call.

    Raises:
        StreamproofError: it cannot be read, or holds no text.
    """
    try:
        if path == STDIN:
            yield from _unpacked(sys.stdin.buffer, path, on_read or (lambda _: None))
        elif path.is_dir():
            raise StreamproofError(f"{path} is a folder.", remedy=f"Name the log in it, e.g. just doctor {path}/*.log")
        else:
            with path.open("rb") as file:
                yield from _unpacked(file, path, on_read or (lambda _: None))
    except OSError as error:
        raise StreamproofError(
            f"{_name(path)} cannot be read: {error.strerror or error}", remedy="Check the path and its permissions."
        ) from error


def _unpacked(file: IO[bytes], path: Path, on_read: Callable[[int], None]) -> Iterator[bytes]:
    first = file.read(PIECE)
    text = first.lstrip(b"\x00")
    if text.startswith(_GZIP):
        yield from _gunzip(first, file, path, on_read)
        return
    _refuse_other_formats(text, path)
    on_read(len(first))
    if text:
        yield text
    while piece := file.read(PIECE):
        on_read(len(piece))
        yield piece


def _gunzip(first: bytes, file: IO[bytes], path: Path, on_read: Callable[[int], None]) -> Iterator[bytes]:
    """Unpacks, in bounded pieces. A gzip that was cut off, as a copied log often is, is read as far as it goes."""
    unpacker = zlib.decompressobj(wbits=_GZIP_WINDOW)
    packed, began = first, False
    while packed:
        on_read(len(packed))
        while True:
            try:
                piece = unpacker.decompress(packed, PIECE)
            except zlib.error as error:
                if began:
                    return
                raise StreamproofError(
                    f"{_name(path)} is a damaged gzip: {error}", remedy="Copy the log again; gzip -t tests a file."
                ) from error
            if not began:
                _refuse_other_formats(piece, path)
            began = True
            yield piece
            packed = unpacker.unconsumed_tail
            if unpacker.eof:
                packed, unpacker = unpacker.unused_data, zlib.decompressobj(wbits=_GZIP_WINDOW)
            if not packed and len(piece) < PIECE:
                break
        packed = file.read(PIECE)


def _refuse_other_formats(head: bytes, path: Path) -> None:
    name = _name(path)
    for magic, what, command in _KINDS:
        if head.startswith(magic):
            raise StreamproofError(f"{name} is {what}.", remedy=command.replace("FILE", name))
    magic, offset = _TAR
    if head[offset : offset + len(magic)] == magic:
        raise StreamproofError(f"{name} is a tar archive.", remedy=f"tar -xOf {name} | just doctor -")
    sample = head[:4096]
    if sample.count(0) > _MOST_ZEROS * len(sample):
        raise StreamproofError(f"{name} is not text.", remedy="Give the engine's log, as text or as a gzip of it.")


def _name(path: Path) -> str:
    return "standard input" if path == STDIN else str(path)
