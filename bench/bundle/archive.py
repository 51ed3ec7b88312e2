"""Packs files into a tar file that is the same, byte for byte, whenever and wherever it is made; in parts."""

from __future__ import annotations

import hashlib
import io
import re
import shutil
import subprocess
import tarfile
import tempfile
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Final, TypeAlias, cast

from bench.bundle.host.manifest import FILE_LIST, Archive, ListedFile, Part, is_inside, write_file_list
from bench.errors import StreamproofError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from _typeshed import ReadableBuffer as Buffer

    from bench.bundle.entries import Entry

_XZ: Final = (
    # A large window for GPU code (from 13 to 9 MB for FlashAttention 3), the filter for x86 machine code. The largest
    # files, vLLM's own kernels, are compressed already: no level makes them smaller.
    *("xz", "--compress", "--stdout", "--check=crc64", "--x86", "--lzma2=preset=6,dict=64MiB"),
    # Blocks of one size: the bytes are then the same for any number of threads, and several unpack at once.
    *("--threads=2", "--block-size=256MiB"),
)
_PIECE: Final = 1 << 20
_UNITS: Final = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
_SMALLEST_PART: Final = 1000
_MOST_PARTS: Final = 999


def parse_size(text: str) -> int:
    """Bytes of "60MB" (10^6) or "60MiB" (2^20).

    Raises:
        UsageError: it is no size, or below 1 KB.
    """
    match = re.fullmatch(r"(\d{1,12}(?:\.\d{1,3})?)\s*([A-Za-z]*)", text.strip())
    unit = _UNITS.get(match[2].upper()) if match else None
    size = int(float(match[1]) * unit) if match and unit else 0
    if size < _SMALLEST_PART:
        raise UsageError(f"{text!r} is no size.", remedy="E.g. 60MB, 64MiB or 2GB; at least 1KB.")
    return size


Packed: TypeAlias = dict[tuple[str, bool], str]
"""Where a content is already: its SHA-256 and whether it may be run, to its path."""


def pack(  # noqa: PLR0913  an archive has as many properties as it has
    name: str,
    entries: Sequence[Entry],
    folder: Path,
    *,
    file_name: str,
    compress: bool,
    part_size: int,
    time: int,
    packed: Packed | None = None,
) -> Archive:
    """Writes the parts of an archive into `folder`.

    Args:
        name: for people.
        entries: the files; of two with the same content, one is packed.
        folder: an existing one.
        file_name: the parts are called this with a number behind.
        compress: with xz; not for weights, which do not get smaller.
        part_size: bytes of every part but the last.
        time: seconds since 1970: the time of every file.
        packed: what earlier archives hold, which are unpacked first: it is not packed again. What this one holds is
            added.

    Raises:
        StreamproofError: two files have the same path, there are too many parts, xz failed, or the disk is full.
    """
    listed = _list(entries)
    file_list = write_file_list(list(listed.values()))
    parts = _Parts(folder, file_name, part_size)
    packed = {} if packed is None else packed
    try:
        if compress:
            with tempfile.TemporaryFile(dir=folder) as whole:
                with _xz(whole) as sink:
                    _write_tar(sink, entries, listed, time=time, packed=packed)
                whole.seek(0)
                shutil.copyfileobj(whole, parts, _PIECE)
        else:
            _write_tar(parts, entries, listed, time=time, packed=packed)
        written = parts.finish()
    except OSError as error:
        raise StreamproofError(
            f"{error.filename or folder} cannot be written: {error.strerror}",
            remedy="Make room there, or name another folder with --out.",
        ) from error
    return Archive(
        name=name,
        compression="xz" if compress else "none",
        files_sha256=hashlib.sha256(file_list).hexdigest(),
        file_count=len(listed),
        unpacked_size=sum(file.size for file in listed.values()),
        parts=written,
    )


def _list(entries: Sequence[Entry]) -> dict[str, ListedFile]:
    listed: dict[str, ListedFile] = {}
    for entry in entries:
        if entry.path in listed:
            raise StreamproofError(f"two files of the bundle are called {entry.path}.", remedy="Rename one of them.")
        if not is_inside(entry.path):
            raise StreamproofError(
                f"a bundle cannot carry a file of this name: {entry.path!r}", remedy="Rename it, or leave it out."
            )
        listed[entry.path] = ListedFile(entry.path, entry.sha256(), entry.size(), entry.executable)
    return listed


def _write_tar(
    sink: IO[bytes] | _Parts, entries: Sequence[Entry], listed: dict[str, ListedFile], *, time: int, packed: Packed
) -> None:
    file_list = write_file_list(list(listed.values()))
    with tarfile.open(fileobj=sink, mode="w|", format=tarfile.PAX_FORMAT, bufsize=_PIECE) as tar:
        tar.addfile(_member(FILE_LIST, len(file_list), executable=False, time=time), io.BytesIO(file_list))
        for entry in sorted(entries, key=lambda entry: entry.path):
            file = listed[entry.path]
            member = _member(entry.path, file.size, executable=file.executable, time=time)
            twin = packed.setdefault((file.sha256, file.executable), entry.path)
            if twin != entry.path and file.size:
                member.type, member.linkname, member.size = tarfile.LNKTYPE, twin, 0
                tar.addfile(member)
            elif isinstance(entry.source, bytes):
                tar.addfile(member, io.BytesIO(entry.source))
            else:
                with entry.source.open("rb") as source:
                    tar.addfile(member, source)


def _member(path: str, size: int, *, executable: bool, time: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(path)
    member.size, member.mtime, member.mode = size, time, 0o755 if executable else 0o644
    return member


@contextmanager
def _xz(output: IO[bytes]) -> Iterator[IO[bytes]]:
    """A pipe whose content arrives compressed in `output`.

    Raises:
        StreamproofError: xz is missing, or failed.
    """
    try:
        process = subprocess.Popen(_XZ, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.PIPE)  # noqa: S603
    except FileNotFoundError as error:
        raise StreamproofError(
            "xz, which compresses the bundle, is not on the path.", remedy="Install the package xz-utils (or xz)."
        ) from error
    with process:
        pipe = cast("IO[bytes]", process.stdin)
        with suppress(BrokenPipeError):  # xz has ended: its own words, below, say why
            yield pipe
            pipe.close()
        said = cast("IO[bytes]", process.stderr).read().decode(errors="replace").strip()
    if process.returncode:
        raise StreamproofError(f"xz failed: {said or process.returncode}", remedy="See that the disk has room.")


class _Parts(io.RawIOBase):
    """A file in pieces of one size.

    Args:
        folder: where they are made.
        name: ".001", ".002", ... are put behind it.
        size: bytes of each but the last.
    """

    def __init__(self, folder: Path, name: str, size: int) -> None:
        super().__init__()
        self._folder = folder
        self._name = name
        self._size = size
        self._done: list[Part] = []
        self._file: IO[bytes] | None = None
        self._digest = hashlib.sha256()
        self._written = 0

    def write(self, data: Buffer) -> int:
        left = memoryview(data).cast("B")
        total = len(left)
        while left:
            if self._file is None:
                self._open()
            piece = left[: self._size - self._written]
            cast("IO[bytes]", self._file).write(piece)
            self._digest.update(piece)
            self._written += len(piece)
            left = left[len(piece) :]
            if self._written == self._size:
                self._end_part()
        return total

    def finish(self) -> tuple[Part, ...]:
        """The parts; nothing can be written after this."""
        if self._file is not None:
            self._end_part()
        self.close()
        return tuple(self._done)

    def _open(self) -> None:
        if len(self._done) >= _MOST_PARTS:
            raise StreamproofError(
                f"the bundle does not fit in {_MOST_PARTS} parts of {self._size:,} bytes.",
                remedy="Give a larger --part-size.",
            )
        self._file = (self._folder / self._next_name()).open("xb")

    def _next_name(self) -> str:
        return f"{self._name}.{len(self._done) + 1:03d}"

    def _end_part(self) -> None:
        cast("IO[bytes]", self._file).close()
        self._done.append(Part(self._next_name(), self._digest.hexdigest(), self._written))
        self._file, self._digest, self._written = None, hashlib.sha256(), 0
