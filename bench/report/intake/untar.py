"""Unpacks a tar archive, plain or gzipped, that somebody hostile may have made.

A gzipped one is unpacked to a plain one first, counted a piece at a time. Then every member must be a plain file or the
one folder that they lie in: no link, device, pipe or sparse file.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import tempfile
import zlib
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Final

from bench.report.intake.members import Members, refuse
from bench.report.intake.write import Ratio, write_file
from bench.report.verify_files import MEBIBYTE, TOTAL_LIMIT, Finding, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_READ_LIMIT: Final = 2 * MEBIBYTE
"""Bytes that are read at once. Only an extended header asks for as many as it is long."""

_KINDS: Final = (
    (tarfile.TarInfo.issym, "is a symbolic link; a report holds plain files only"),
    (tarfile.TarInfo.islnk, "is a hard link; a report holds plain files only"),
    (tarfile.TarInfo.isdev, "is a device or a pipe; a report holds plain files only"),
    (tarfile.TarInfo.issparse, "is a sparse file; a report holds plain files only"),
)


def untar(archive: IO[bytes], name: str, folder: Path, *, gzipped: bool) -> None:
    """Writes the files of a report into an empty folder.

    Args:
        archive: open for reading, at any position.
        name: of the archive, for messages.
        folder: to write to.
        gzipped: whether it is packed.

    Raises:
        RefusedError: the archive is damaged, or holds what no report does.
        OSError: the files cannot be written.
    """
    size = archive.seek(0, 2)
    archive.seek(0)
    if not gzipped:
        _untar(archive, name, folder, size)
        return
    with tempfile.TemporaryFile() as plain:
        with _reading(name), gzip.GzipFile(fileobj=archive) as unpacked:
            _copy(unpacked, plain, Ratio(name, size))
        size = plain.seek(0, 2)
        plain.seek(0)
        _untar(plain, name, folder, size)


def _copy(packed: gzip.GzipFile, plain: IO[bytes], ratio: Ratio) -> None:
    total = 0
    while piece := packed.read(MEBIBYTE):
        total += len(piece)
        ratio.check(total)
        if total > TOTAL_LIMIT:
            reason = f"unpacks to more than {TOTAL_LIMIT >> 20:,} MiB, the most of a report"
            raise RefusedError(Finding(ratio.name, reason))
        plain.write(piece)


def _untar(archive: IO[bytes], name: str, folder: Path, size: int) -> None:
    members = Members()
    with _reading(name), tarfile.open(fileobj=_Sparing(archive, name), mode="r:") as tar:
        reached = 0
        while (member := tar.next()) is not None:
            for is_kind, reason in _KINDS:
                if is_kind(member):
                    refuse(member.name, reason)
            if member.offset < reached or member.size < 0 or member.offset_data + member.size > size:
                refuse(member.name, "does not lie behind the members before it and before the end")
            reached = member.offset_data + member.size
            if member.isdir():
                members.add_folder(member.name)
            elif member.isreg():
                file = members.add_file(member.name, member.size)
                write_file(folder, file, member.size, _content(tar, member))
            else:
                refuse(member.name, "is of a kind that no report has")
        _check_rest(archive, name, tar.offset)


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> Iterator[bytes]:
    with tar.extractfile(member) or io.BytesIO() as content:
        while piece := content.read(MEBIBYTE):
            yield piece


def _check_rest(archive: IO[bytes], name: str, offset: int) -> None:
    """`tarfile` takes whatever it cannot read for the end."""
    archive.seek(offset)
    while piece := archive.read(MEBIBYTE):
        if piece.strip(b"\0"):
            raise RefusedError(Finding(name, "holds something behind its end, or is damaged there", "Fetch it again."))


class _Sparing(io.RawIOBase):
    """A file that does not read without measure: `tarfile` reads an extended header of any length at once."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        super().__init__()
        self._file = file
        self._name = name

    def read(self, size: int = -1, /) -> bytes:
        if not 0 <= size <= _READ_LIMIT:
            raise RefusedError(Finding(self._name, f"has a header of {size:,} bytes; no report has one as long"))
        return self._file.read(size)

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """What the libraries say of a damaged archive is a refusal; what the system says of a full disk is not."""
    try:
        yield
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, ValueError, RecursionError) as error:
        reason = f"cannot be read as a tar archive: {str(error) or type(error).__name__}"
        raise RefusedError(Finding(name, reason, "Fetch it again.")) from error
