"""What is in the layers of an image, file by file, and in what two layers differ."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import IO, TYPE_CHECKING, cast

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What a layer says of one path.

    Attributes:
        kind: type of the tar entry: b"0" a file, b"5" a folder, b"2" a symbolic link, ...
        mode: permission bits.
        owner: numbers of user and group.
        time: of its last change, seconds since 1970.
        link: what it points to.
        size: bytes.
        content: SHA-256 of a file.
    """

    kind: bytes
    mode: int
    owner: tuple[int, int]
    time: float
    link: str
    size: int
    content: str


def differences(first: Mapping[str, Entry], second: Mapping[str, Entry]) -> list[str]:
    """One line for each path that differs, sorted: "etc/passwd: time 1 and 2, content"."""
    lines = []
    for path in sorted(first.keys() | second.keys()):
        one, other = first.get(path), second.get(path)
        if one is None or other is None:
            lines.append(f"{path}: only in the {'second' if one is None else 'first'}")
        elif one != other:
            lines.append(f"{path}: {', '.join(_differing(one, other))}")
    return lines


def _differing(one: Entry, other: Entry) -> Iterator[str]:
    for field in fields(Entry):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if a != b:
            yield field.name if field.name == "content" else f"{field.name} {a!r} and {b!r}"


def read_saved(chunks: Iterable[bytes]) -> list[dict[str, Entry]]:
    """The layers of a saved image (`docker save`), lowest first, each as path to entry.

    Args:
        chunks: the archive, in either of Docker's layouts (layer.tar files, or blobs of an OCI layout).
    """
    contents: dict[str, dict[str, Entry]] = {}
    order: list[str] = []
    with tarfile.open(fileobj=_Stream(chunks), mode="r|") as archive:
        for member in archive:
            if not member.isreg():
                continue
            content = cast("IO[bytes]", archive.extractfile(member))
            if member.name == "manifest.json":
                order = json.load(content)[0]["Layers"]
            elif member.name.endswith("/layer.tar") or member.name.startswith("blobs/"):
                contents[member.name] = read_layer(content)
    return [contents[name] for name in order]


def read_layer(content: IO[bytes]) -> dict[str, Entry]:
    """The entries of a layer by path; none where it is no tar file but a blob of another kind."""
    entries = {}
    try:
        with tarfile.open(fileobj=content, mode="r|") as layer:
            for member in layer:
                entries[member.name] = Entry(
                    kind=member.type,
                    mode=member.mode,
                    owner=(member.uid, member.gid),
                    time=float(member.mtime),
                    link=member.linkname,
                    size=member.size,
                    content=_sha256(layer.extractfile(member)) if member.isreg() else "",
                )
    except tarfile.ReadError:
        return {}
    return entries


def _sha256(file: IO[bytes] | None) -> str:
    return hashlib.file_digest(file, "sha256").hexdigest() if file is not None else ""  # type: ignore[arg-type]


class _Stream(io.RawIOBase):
    """Chunks as a file that can only be read onwards."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = chunk
        taken, self._rest = self._rest[: len(view)], self._rest[len(view) :]
        view[: len(taken)] = taken
        return len(taken)
