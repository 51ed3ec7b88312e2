"""Resolves the hash-locked closures of docker/locks again, each by the command that its own .in file gives.

uv does the work. A lock keeps the versions that it has, as long as its .in file allows them; only `upgrade` takes newer
ones. The hashes are asked for anew: a file that a package index took away, or has with another content, is told. Files
that were added to a release change nothing that was locked, so that only an upgrade takes them too.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.bundle.requirements import blocks
from bench.engine.install import find_uv
from bench.errors import StreamproofError
from bench.images.pin_finding import Change, Finding, State

if TYPE_CHECKING:
    from collections.abc import Sequence

UV_LOCK: Final = "uv.lock"
"""The client's own closure."""

_STALE: Final = "needs to be updated"
"""How uv says that its lock is not that of pyproject.toml."""

_COMMANDS: Final = (("uv", "pip", "compile"), ("uv", "export"))
"""What a lock's command may be. The file is data: nothing else of it is run."""

_EXPORTED: Final = {
    "bench": ("export", "--frozen", "--no-dev", "--no-emit-project", "--no-header", "--format", "requirements.txt")
}
"""Locks that follow uv.lock and have no .in file, with the command that makes them."""

_OVERRIDES: Final = "-overrides"
"""Ends the name of what is no lock, but one's input."""

_NO_NETWORK: Final = (
    "error sending request",
    "network was disabled",
    "network connectivity is disabled",
    "Failed to fetch",
    "dns error",
    "Request failed after",
)
"""How uv says that an index could not be asked."""

_VERSION: Final = re.compile(r"==(\S+)")
_HASH: Final = re.compile(r"sha256:[0-9a-f]{64}")
_HASH_LINE: Final = re.compile(r" \\\n    --hash=sha256:[0-9a-f]{64}")
_SHOWN_LINES: Final = 4


@dataclass(frozen=True)
class Lock:
    """One lock and how it is made.

    Attributes:
        path: the lock.
        folder: where its command runs.
        arguments: of uv, without `-o FILE`.
    """

    path: Path
    folder: Path
    arguments: tuple[str, ...]

    @property
    def name(self) -> str:
        """E.g. "engine-cpu"."""
        return self.path.stem


def find_locks(folder: Path, repository: Path) -> list[Lock]:
    """The locks of a folder.

    Raises:
        StreamproofError: nothing says how one of them is made.
    """
    names = {path.stem for path in (*folder.glob("*.in"), *folder.glob("*.txt")) if not path.stem.endswith(_OVERRIDES)}
    return [
        Lock(folder / f"{name}.txt", repository, _EXPORTED[name])
        if name in _EXPORTED
        else _lock(folder / f"{name}.in", repository)
        for name in sorted(names)
    ]


def check_lock(lock: Lock, *, upgrade: bool, recipes: Sequence[str]) -> Finding:
    """What resolving a lock again gives. Nothing is written but uv's own cache.

    Args:
        lock: which.
        upgrade: take the newest versions that its .in file allows.
        recipes: the targets that run on it.

    Raises:
        StreamproofError: uv or the lock is not there.
    """
    old = _read(lock.path)
    with tempfile.TemporaryDirectory() as scratch:
        # uv prefers the versions that it finds in its output, and would believe the hashes that it finds there.
        output = Path(scratch) / lock.path.name
        output.write_text(_HASH_LINE.sub("", old), encoding="utf-8")
        more = ["--upgrade"] if upgrade and lock.name not in _EXPORTED else []  # these follow uv.lock
        answer = _uv([*lock.arguments, "--quiet", *more, "-o", str(output)], lock.folder)
        new = output.read_text(encoding="utf-8")
    if answer.returncode:
        return _failed(lock.name, f"{lock.name}.in", answer.stderr, recipes)
    changes, added = _differences(old, new)
    if upgrade:
        changes = tuple(sorted((*changes, *added), key=lambda change: change.key))
    return Finding(
        name=lock.name,
        what=lock.path.name,
        state=State.CHANGED if changes else State.CONFIRMED,
        changes=changes,
        recipes=tuple(recipes),
        seen=(f"more files than locked: {', '.join(change.key for change in added)}",) if added and not upgrade else (),
        content=new if changes else None,
    )


def check_uv_lock(repository: Path) -> Finding:
    """Whether uv.lock is what pyproject.toml asks for."""
    answer = _uv(["lock", "--check", "--quiet"], repository)
    if answer.returncode == 0:
        return Finding(name=UV_LOCK, what=UV_LOCK, state=State.CONFIRMED)
    if _STALE not in answer.stderr:
        return _failed(UV_LOCK, "pyproject.toml", answer.stderr, ())
    return Finding(
        name=UV_LOCK,
        what=UV_LOCK,
        state=State.CONTRADICTED,
        why="it is not what pyproject.toml asks for",
        remedy="Run uv lock, and commit both.",
    )


def _lock(source: Path, repository: Path) -> Lock:
    words = _command(_read(source)) if source.exists() else []
    target = source.with_suffix(".txt")
    if tuple(words[:3]) not in _COMMANDS and tuple(words[:2]) not in _COMMANDS:
        raise _unexplained(source)
    try:
        at = words.index("-o")
        output = words[at + 1]
    except (ValueError, IndexError):
        raise _unexplained(source) from None
    # "from this folder" or "from the repository's root": the path of the lock tells which.
    for folder in (source.parent, repository):
        if (folder / output).resolve() == target.resolve():
            return Lock(target, folder, (*words[1:at], *words[at + 2 :]))
    raise _unexplained(source)


def _command(text: str) -> list[str]:
    """The words of the first comment that is a command of uv, with its continuation lines."""
    lines = [line[1:].strip() for line in text.splitlines() if line.startswith("#")]
    start = next((number for number, line in enumerate(lines) if line.startswith("uv ")), None)
    if start is None:
        return []
    taken = ""
    for line in lines[start:]:
        taken += line.removesuffix("\\")
        if not line.endswith("\\"):
            break
    return shlex.split(taken)


def _differences(old: str, new: str) -> tuple[tuple[Change, ...], tuple[Change, ...]]:
    """What is different package by package, and apart from that the packages that only got more files."""
    before, after = blocks(old), blocks(new)
    changes, added = [], []
    for package in sorted({*before, *after}):
        was, now = "".join(before.get(package, ())), "".join(after.get(package, ()))
        versions = [" | ".join(_VERSION.findall(text)) or None for text in (was, now)]
        gone, more = _hashes(was) - _hashes(now), _hashes(now) - _hashes(was)
        if versions[0] != versions[1]:
            changes.append(Change(package, versions[0], versions[1]))
        elif _requirements(was) != _requirements(now):
            changes.append(Change(package, _requirements(was), _requirements(now)))
        elif gone:
            what = f"{versions[1]} with {len(gone)} of its files taken away and {len(more)} added"
            changes.append(Change(package, versions[0], what))
        elif more:
            added.append(Change(package, versions[0], f"{versions[1]} with {len(more)} files added"))
    return tuple(changes), tuple(added)


def _hashes(block: str) -> set[str]:
    return set(_HASH.findall(block))


def _requirements(block: str) -> str:
    """Versions and the conditions that they are for, without hashes and comments."""
    heads = [line.removesuffix(" \\") for line in _HASH_LINE.sub("", block).splitlines() if not line.startswith(" ")]
    return " | ".join(heads)


def _failed(name: str, source: str, said: str, recipes: Sequence[str]) -> Finding:
    lines = [line.strip() for line in said.strip().splitlines() if line.strip()]
    unreachable = any(words in said for words in _NO_NETWORK)
    return Finding(
        name=name,
        what=source,
        state=State.NOT_CHECKED if unreachable else State.CONTRADICTED,
        why=("the package index cannot be asked" if unreachable else "uv cannot resolve it")
        + "".join(f"\n{line[:200]}" for line in lines[:_SHOWN_LINES]),
        remedy="Run it again where there is network." if unreachable else f"Correct {source}.",
        recipes=tuple(recipes),
    )


def _uv(arguments: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603  the pinned tool with a lock's own arguments
        [find_uv(), *arguments], check=False, capture_output=True, text=True, cwd=folder, stdin=subprocess.DEVNULL
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise StreamproofError(
            f"{path} cannot be read: {error.strerror}",
            remedy=f"Make it as {path.with_suffix('.in').name} says, or restore it from git.",
        ) from error


def _unexplained(source: Path) -> StreamproofError:
    return StreamproofError(
        f"{source} does not say how its lock is made",
        remedy=f"Put the command into a comment: # uv pip compile {source.name} ... -o {source.stem}.txt",
    )
