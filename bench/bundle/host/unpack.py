"""Unpacks an archive, trusting nothing that is in it: a file that is not in the signed list is not written.

`tar` itself would follow what the archive says: leave the folder by "..", write through a link, make devices. Here
every member must be a plain file of the list, or a hard link to one that is already there with the same content.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, BinaryIO, Final, cast

from .manifest import FILE_LIST, Archive, BadManifestError, ListedFile, parse_file_list
from .refusal import COPY_AGAIN, Refusal

_PIECE: Final = 1 << 20
_LIST_LIMIT: Final = 256 << 20
"""Bytes of the list of files: a million files have about 150 MB."""


def unpack(
    archive: Archive, folder: Path, root: Path, before: Mapping[str, ListedFile] | None = None
) -> dict[str, ListedFile]:
    """Writes an archive's files below `root`, which must be empty or hold other archives' files only.

    Args:
        archive: from the signed manifest.
        folder: where its parts are; they have been checked.
        root: where its files go.
        before: files of earlier archives that are there: a file that is there already travels as a link to it.

    Returns:
        The list of files, by path.

    Raises:
        Refusal: the archive is not what its list says, or the disk is full.
    """
    with _tar_stream(archive, folder) as stream:
        try:
            with tarfile.open(fileobj=stream, mode="r|") as tar:
                members = iter(tar)
                listed = _file_list(tar, next(members, None), archive)
                unpacker = _Unpacker(root, listed, before or {})
                for member in members:
                    unpacker.take(tar, member)
        except tarfile.TarError as error:
            raise Refusal(f"the archive {archive.name} cannot be read: {error}", COPY_AGAIN) from error
        except OSError as error:
            raise Refusal(
                f"{error.filename or root} cannot be written: {error.strerror}",
                "Make room there, or name another folder with --to.",
            ) from error
    if missing := listed.keys() - unpacker.written:
        raise Refusal(f"the archive {archive.name} does not hold {min(missing)}, which its list names", COPY_AGAIN)
    return listed


def check_unpacked(root: Path, listed: dict[str, ListedFile]) -> None:
    """Reads every file back from the disk.

    Raises:
        Refusal: one is not what was signed.
    """
    for path, file in listed.items():
        with (root / path).open("rb") as opened:
            if hashlib.file_digest(opened, "sha256").hexdigest() != file.sha256:
                raise Refusal(
                    f"{root / path} does not hold what was written to it", "The disk or the memory is faulty: check it."
                )


class _Unpacker:
    def __init__(self, root: Path, listed: Mapping[str, ListedFile], before: Mapping[str, ListedFile]) -> None:
        self.written: set[str] = set()
        self._root = root
        self._listed = listed
        self._before = before

    def take(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        """Writes one member.

        Raises:
            Refusal: the list does not allow it.
            OSError: it cannot be written.
        """
        # Everything that the list names is inside the folder, so that this refuses every path that is not.
        file = self._listed.get(member.name)
        if file is None:
            raise Refusal(
                f"the archive holds {member.name[:200]!r}, which is not in its signed list of files", COPY_AGAIN
            )
        if member.name in self.written or member.name in self._before:
            raise Refusal(f"the archive holds {member.name!r} twice", COPY_AGAIN)
        target = self._root / member.name
        target.parent.mkdir(parents=True, exist_ok=True)
        if member.islnk():
            self._link(file, member.linkname, target)
        elif member.isreg():
            self._write(file, cast("IO[bytes]", tar.extractfile(member)), target)
            os.utime(target, (member.mtime, member.mtime))
        else:
            raise Refusal(f"the archive holds {member.name!r} as something else than a plain file", COPY_AGAIN)
        self.written.add(member.name)

    def _write(self, file: ListedFile, source: IO[bytes], target: Path) -> None:
        mode = 0o755 if file.executable else 0o644
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        digest = hashlib.sha256()
        with os.fdopen(descriptor, "wb") as opened:
            while piece := source.read(_PIECE):
                digest.update(piece)
                opened.write(piece)
        if digest.hexdigest() != file.sha256:
            raise Refusal(f"{file.path} in the archive is not the file that was signed", COPY_AGAIN)

    def _link(self, file: ListedFile, to: str, target: Path) -> None:
        """A file that is another one's twin: shares its blocks where the file system can."""
        other = self._listed.get(to) if to in self.written else self._before.get(to)
        if other is None or other.sha256 != file.sha256:
            raise Refusal(f"the archive links {file.path!r} to {to[:200]!r}, which is not its signed twin", COPY_AGAIN)
        if other.executable == file.executable:
            with suppress(OSError):  # a file system without hard links
                os.link(self._root / to, target)
                return
        shutil.copyfile(self._root / to, target)
        target.chmod(0o755 if file.executable else 0o644)


def _file_list(tar: tarfile.TarFile, member: tarfile.TarInfo | None, archive: Archive) -> dict[str, ListedFile]:
    if member is None or member.name != FILE_LIST or not member.isreg() or member.size > _LIST_LIMIT:
        raise Refusal(f"the archive {archive.name} does not begin with its list of files", COPY_AGAIN)
    raw = cast("IO[bytes]", tar.extractfile(member)).read()
    if hashlib.sha256(raw).hexdigest() != archive.files_sha256:
        raise Refusal(f"the list of files of the archive {archive.name} is not the signed one", COPY_AGAIN)
    try:
        return parse_file_list(raw)
    except BadManifestError as error:
        raise Refusal(f"the archive {archive.name}: {error}", COPY_AGAIN) from error


@contextmanager
def _tar_stream(archive: Archive, folder: Path) -> Iterator[BinaryIO]:
    """The parts, one after the other, uncompressed."""
    paths = [folder / part.name for part in archive.parts]
    if archive.compression == "none":
        with io.BufferedReader(_Joined(paths), _PIECE) as joined:
            yield cast("BinaryIO", joined)
        return
    with subprocess.Popen(["xz", "-dc", "-T0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as xz:  # noqa: S607
        feeder = threading.Thread(target=_feed, args=(paths, cast("IO[bytes]", xz.stdin)))
        feeder.start()
        try:
            yield cast("BinaryIO", xz.stdout)
        finally:
            cast("IO[bytes]", xz.stdout).close()  # unblocks xz and the feeder when we end early
            feeder.join()


def _feed(paths: list[Path], pipe: IO[bytes]) -> None:
    with suppress(BrokenPipeError), pipe:  # xz ended: what it said is on standard error, and the tar is cut short
        for path in paths:
            with path.open("rb") as part:
                shutil.copyfileobj(part, pipe, _PIECE)


class _Joined(io.RawIOBase):
    """Several files read as one."""

    def __init__(self, paths: list[Path]) -> None:
        super().__init__()
        self._left = list(paths)
        self._file: io.BufferedReader | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # the base takes any writable buffer
        while self._file is not None or self._left:
            if self._file is None:
                self._file = self._left.pop(0).open("rb")
            if count := self._file.readinto(buffer):
                return count
            self._file.close()
            self._file = None
        return 0

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        super().close()
