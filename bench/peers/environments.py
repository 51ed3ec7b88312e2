"""The environment of each tool: found, or installed once from its hash-locked list."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.engine.environment import cache_root, ensure_environment
from bench.engine.install import Installation, Say
from bench.engine.pins import REPOSITORY, Pins, load_pins
from bench.errors import StreamproofError
from bench.peers.tool import Tool

_PYENV: Final = Path.home() / ".pyenv" / "versions"
"""Where pyenv keeps its Pythons; on the path it shows only those that are switched on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a tool runs.

    Attributes:
        python: interpreter of its environment.
        version: of the tool.
    """

    python: Path
    version: str


def ensure(tool: Tool, *, say: Say, terminal: bool, pins: Pins | None = None) -> Place:
    """The tool's environment, installed if it is not there.

    Args:
        tool: which.
        say: takes a line for each step of an installation.
        terminal: see `bench.engine.install.Installation`.
        pins: the pinned versions; None reads docker/pins.toml.

    Raises:
        StreamproofError: no fitting Python, or the installation failed.
    """
    pins = pins or load_pins()
    if tool.environment is None:
        return Place(python=Path(sys.executable), version=_commit())
    if tool.environment in pins.engines:
        engine = ensure_environment(tool.environment, say=say, terminal=terminal, pins=pins)
        return Place(python=engine.python, version=pins.engine(tool.environment).version)
    pin = pins.peer(tool.environment)
    interpreter = find_python(pin.python)
    lock = REPOSITORY / pin.lock
    digest = hashlib.sha256(lock.read_bytes() + str(interpreter).encode()).hexdigest()[:12]
    installation = Installation(
        name=f"{tool.name} {pin.version}",
        lock=lock,
        target=cache_root() / "peers" / f"{tool.environment}-{digest}",
        gib=pin.installed_gib,
        say=say,
        terminal=terminal,
        interpreter=interpreter,
    )
    installation.ensure()
    return Place(python=installation.python, version=pin.version)


def find_python(versions: Sequence[str]) -> Path:
    """An interpreter of one of these versions: this one, one on the path, or one that pyenv keeps.

    Raises:
        StreamproofError: there is none.
    """
    if f"{sys.version_info.major}.{sys.version_info.minor}" in versions:
        return Path(sys.executable)
    for version in versions:
        found = shutil.which(f"python{version}")
        kept = sorted(_PYENV.glob(f"{version}.*/bin/python{version}"))
        for candidate in ([Path(found)] if found else []) + kept:
            if _runs(candidate, version):
                return candidate
    raise StreamproofError(
        f"no Python {' or '.join(versions)} is on the path",
        remedy="Install one (Debian: apt-get install python3.13; anywhere: uv python install 3.12).",
    )


def _runs(python: Path, version: str) -> bool:
    """Whether it starts and is that version: a launcher of pyenv's may be neither."""
    asked = [str(python), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    answer = subprocess.run(asked, capture_output=True, text=True, check=False)  # noqa: S603  a Python of this host
    return answer.returncode == 0 and answer.stdout.strip() == version


def _commit() -> str:
    command = ["git", "-C", str(REPOSITORY), "rev-parse", "--short", "HEAD"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  our own command
    return answer.stdout.strip() or "not a checkout"
