"""Python environments of this project that are apart from the client's, each installed once from a hash-locked list.

The engine's lives in `~/.cache/streamproof/engines/<name>-<hash>/`, where the hash covers the lock file and the
interpreter: another lock is another folder.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.engine.install import Installation
from bench.engine.pins import REPOSITORY, EnginePin, Pins, QuantizePin, load_pins
from bench.errors import StreamproofError
from bench.observe.packages import installed_packages, packages_sha256

if TYPE_CHECKING:
    from bench.engine.install import Say


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineEnvironment:
    """An environment that is installed.

    Attributes:
        name: as in docker/pins.toml.
        python: its interpreter.
        module: what `python -m` starts to serve.
        env: environment variables that it needs whatever the recipe says.
        packages_sha256: hash over the sorted list of its packages (`bench.observe.packages`).
    """

    name: str
    python: Path
    module: str
    env: Mapping[str, str]
    packages_sha256: str

    def command(self) -> tuple[str, ...]:
        """The program that serves, without its arguments."""
        return (str(self.python), "-m", self.module)


def cache_root() -> Path:
    """Where streamproof keeps what it can make again: `$XDG_CACHE_HOME/streamproof`, or `~/.cache/streamproof`."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG base directory specification: a relative path is to be ignored.
    return (base if base.is_absolute() else Path.home() / ".cache") / "streamproof"


def ensure_environment(
    name: str, *, say: Say, terminal: bool = False, pins: Pins | None = None, repository: Path = REPOSITORY
) -> EngineEnvironment:
    """Install the environment if it is not there, and return it.

    Args:
        name: a recipe's `engine.lock`.
        say: takes a line for each step of an installation; hears nothing when there is nothing to do.
        terminal: see `Installation`.
        pins: the pinned versions; None reads docker/pins.toml.
        repository: what the lock files' paths are relative to.

    Raises:
        UsageError: no such environment is pinned.
        StreamproofError: this Python is not one that the lock was made for, or the installation failed.
    """
    pin = (pins or load_pins()).engine(name)
    locked = Locked(label=f"the engine environment {name}", kind="engines", name=name, pin=pin)
    installation = ensure_locked(locked, say=say, terminal=terminal, repository=repository)
    return EngineEnvironment(
        name=name,
        python=installation.python,
        module=pin.module,
        env=pin.env,
        packages_sha256=packages_sha256(packages_of(installation)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    """A hash-locked environment of this project, whether it is installed or not.

    Attributes:
        label: for people ("the engine environment engine-cpu").
        kind: folder below the cache ("engines").
        name: of the environment.
        pin: its lock, the Pythons that this is for, the space that it takes.
    """

    label: str
    kind: str
    name: str
    pin: EnginePin | QuantizePin


def ensure_locked(locked: Locked, *, say: Say, terminal: bool, repository: Path = REPOSITORY) -> Installation:
    """Install an environment if it is not there.

    Args:
        locked: which.
        say: takes a line for each step of an installation; hears nothing when there is nothing to do.
        terminal: see `Installation`.
        repository: what the lock file's path is relative to.

    Raises:
        StreamproofError: this Python is not one that the lock was made for, or the installation failed.
    """
    _check_python(locked)
    lock = repository / locked.pin.lock
    installation = Installation(
        name=locked.label,
        lock=lock,
        target=cache_root() / locked.kind / f"{locked.name}-{_digest(locked.label, lock)}",
        gib=locked.pin.installed_gib,
        say=say,
        terminal=terminal,
    )
    installation.ensure()
    return installation


def packages_of(installation: Installation) -> dict[str, str]:
    """What is installed in it: name to version."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return installed_packages(installation.target / "lib" / version / "site-packages")


def _check_python(locked: Locked) -> None:
    if f"{sys.version_info.major}.{sys.version_info.minor}" not in locked.pin.python:
        raise StreamproofError(
            f"{locked.label} is locked for Python {', '.join(locked.pin.python)}; "
            f"this is Python {platform.python_version()}",
            remedy=f"Make streamproof's own environment with one of them: uv sync --python {locked.pin.python[-1]}",
        )


def _digest(label: str, lock: Path) -> str:
    try:
        content = lock.read_bytes()
    except OSError as error:
        raise StreamproofError(
            f"the lock file of {label} cannot be read: {lock}: {error.strerror}",
            remedy="streamproof runs from its git checkout; clone it again or restore the file.",
        ) from error
    interpreter = f"{platform.python_implementation()} {platform.python_version()} {platform.machine()}"
    return hashlib.sha256(content + interpreter.encode()).hexdigest()[:12]
