"""The files of a bundle before they are packed: where each comes from and where it goes."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, cast

from bench.bundle.left_out import Saving, leave_out
from bench.errors import StreamproofError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench.bundle.left_out import Rule

CLIENT_PATHS: Final = (
    "Dockerfile",
    "LICENSE",
    "README.md",
    "bench",
    "docker",
    "keys",
    "pyproject.toml",
    "quantize",
    "recipes",
    "uv.lock",
)
"""What of the repository the client needs to run: everything but its tests and tools."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One file to pack.

    Attributes:
        path: within the installed folder.
        source: the file with its content, or the content.
        executable: whether its owner may run it.
    """

    path: str
    source: Path | bytes
    executable: bool = False

    def size(self) -> int:
        """Bytes."""
        return len(self.source) if isinstance(self.source, bytes) else self.source.stat().st_size

    def sha256(self) -> str:
        """Of its content, in hex."""
        if isinstance(self.source, bytes):
            return hashlib.sha256(self.source).hexdigest()
        with self.source.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class Commit:
    """The state of the repository that a bundle is made from.

    Attributes:
        id: 40 hex digits.
        time: seconds since 1970 of the commit: the time of every packed file.
        uncommitted: changed or new files of the client, which are not in the bundle.
    """

    id: str
    time: int
    uncommitted: tuple[str, ...]


def head(repository: Path) -> Commit:
    """The commit that is checked out.

    Raises:
        StreamproofError: it is no git checkout, or git is missing.
    """
    digits, seconds = _git(repository, "show", "--no-patch", "--format=%H %ct", "HEAD").decode().split()
    status = _git(repository, "status", "--porcelain", "-z", "--untracked-files=normal", "--", *CLIENT_PATHS)
    changed = tuple(entry[3:] for entry in status.decode().split("\0") if len(entry) > 3)
    return Commit(digits, int(seconds), changed)


def committed_files(repository: Path, commit: str, prefix: str) -> list[Entry]:
    """The client's files as they are in a commit: what lies about uncommitted does not get into a bundle.

    Raises:
        StreamproofError: git failed, or a file is a link.
    """
    there = set(_git(repository, "ls-tree", "--name-only", "-z", commit).decode().split("\0"))
    paths = [path for path in CLIENT_PATHS if path in there]
    entries = []
    with tarfile.open(fileobj=io.BytesIO(_git(repository, "archive", "--format=tar", commit, "--", *paths))) as tar:
        for member in tar:
            if member.isdir():
                continue
            if not member.isreg():
                raise StreamproofError(
                    f"{member.name} is committed as a link, which a bundle does not carry.",
                    remedy="Commit the file itself.",
                )
            content = cast("IO[bytes]", tar.extractfile(member)).read()
            entries.append(Entry(f"{prefix}{member.name}", content, bool(member.mode & 0o100)))
    return entries


def site_files(site: Path, prefix: str, rules: Sequence[Rule], python: str) -> tuple[list[Entry], list[Saving]]:
    """The files of an unpacked site, without what the rules leave out.

    Each package's RECORD names only what is carried: others look into it to find their files.

    Args:
        site: the folder.
        prefix: of the paths in the bundle.
        rules: what to leave out.
        python: of the host ("312").

    Returns:
        The files, and what each rule that matched a file saved.

    Raises:
        StreamproofError: see `leave_out`.
    """
    files = {path.relative_to(site).as_posix(): path for path in walk(site)}
    dropped = leave_out(list(files), rules, python)
    kept = files.keys() - dropped.keys()
    entries = [
        Entry(
            f"{prefix}{name}",
            _record(files[name], kept) if name.endswith(".dist-info/RECORD") else files[name],
            os.access(files[name], os.X_OK),
        )
        for name in sorted(kept)
    ]
    sizes: dict[str, int] = {}
    for name, rule in dropped.items():
        sizes[rule.name] = sizes.get(rule.name, 0) + files[name].stat().st_size
    return entries, [Saving(rule, sizes[rule.name]) for rule in rules if rule.name in sizes]


def folder_files(folder: Path, prefix: str) -> list[Entry]:
    """All files of a folder, as they are."""
    return [
        Entry(f"{prefix}{path.relative_to(folder).as_posix()}", path, os.access(path, os.X_OK))
        for path in sorted(walk(folder))
    ]


def walk(folder: Path) -> Iterable[Path]:
    """Every file below a folder.

    Raises:
        StreamproofError: something there is neither a file nor a folder, nor a link to a file.
    """
    for path in folder.rglob("*"):
        if path.is_file():
            yield path
        elif not path.is_dir() or path.is_symlink():
            raise StreamproofError(
                f"{path} is neither a file nor a folder: a bundle cannot carry it.",
                remedy="Remove it, or name another folder.",
            )


def _record(path: Path, kept: Iterable[str]) -> bytes:
    kept = set(kept)
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    with path.open(encoding="utf-8", newline="") as file:
        writer.writerows(row for row in sorted(csv.reader(file)) if row and row[0] in kept)
    return text.getvalue().encode()


def _git(repository: Path, *arguments: str) -> bytes:
    try:
        answer = subprocess.run(  # noqa: S603  git with our own arguments
            ["git", "-C", str(repository), *arguments],  # noqa: S607  whichever git the user has
            check=False,
            capture_output=True,
        )
    except FileNotFoundError as error:
        raise StreamproofError("git is not there.", remedy="Install it: a bundle is made from a commit.") from error
    if answer.returncode:
        raise StreamproofError(
            f"git {arguments[0]} failed in {repository}: {answer.stderr.decode(errors='replace').strip()[:300]}",
            remedy="A bundle is made from a git checkout of streamproof, at a commit.",
        )
    return answer.stdout
