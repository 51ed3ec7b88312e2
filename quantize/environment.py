"""Where the workers run: the hash-locked environment, or an interpreter that somebody names."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.engine.environment import Locked, ensure_locked, packages_of
from bench.engine.pins import REPOSITORY, Pins, load_pins
from bench.errors import StreamproofError, UsageError
from bench.observe.packages import packages_sha256
from quantize.stages.stage import Environment

if TYPE_CHECKING:
    from pathlib import Path

    from bench.engine.install import Say

_LIST: Final = """
import importlib.metadata, json
print(json.dumps({d.metadata["Name"]: d.version for d in reversed(list(importlib.metadata.distributions()))}))
"""
"""The first of a name on the path is the one that is imported; so it must come last here."""


@dataclass(frozen=True, kw_only=True)
class WorkerPython:
    """An interpreter for workers.

    Attributes:
        python: its path.
        environment: what is in it.
        extra_path: folders to import from besides, in the form of PYTHONPATH.
    """

    python: Path
    environment: Environment
    extra_path: str = ""


@dataclass(frozen=True, kw_only=True)
class WorkerPlace:
    """Where a worker runs.

    Attributes:
        worker: its interpreter.
        device: "cpu" or "cuda"; part of what decides the outcome, since sums are rounded differently.
    """

    worker: WorkerPython
    device: str


def worker_python(named: Path | None, *, say: Say, terminal: bool, pins: Pins | None = None) -> WorkerPython:
    """The interpreter that workers run in.

    Args:
        named: somebody's own, with its PYTHONPATH; None is the locked environment, installed where it is missing.
        say: takes a line for each step of an installation.
        terminal: see `bench.engine.install.Installation`.
        pins: the pinned versions; None reads docker/pins.toml.

    Raises:
        UsageError: the named one does not run.
        StreamproofError: the locked one cannot be installed.
    """
    if named is not None:
        return _named(named)
    pin = (pins or load_pins()).quantize
    if pin is None:
        raise StreamproofError("docker/pins.toml has no [quantize]", remedy="Restore it: git checkout docker/pins.toml")
    locked = Locked(label="the environment of just quantize", kind="quantize", name="quantize", pin=pin)
    installation = ensure_locked(locked, say=say, terminal=terminal, repository=REPOSITORY)
    return WorkerPython(
        python=installation.python,
        environment=Environment(locked=True, packages_sha256=packages_sha256(packages_of(installation))),
    )


def _named(python: Path) -> WorkerPython:
    try:
        answer = subprocess.run(  # noqa: S603  the user's own interpreter
            [str(python), "-c", _LIST], capture_output=True, text=True, check=True, env=os.environ
        )
        listed: dict[str, str] = json.loads(answer.stdout)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        raise UsageError(
            f"--python {python}: this is no Python interpreter that runs",
            remedy="Name one with the packages of docker/locks/quantize.in, or leave it out.",
        ) from error
    packages = dict(sorted((name.lower().replace("_", "-"), version) for name, version in listed.items() if name))
    return WorkerPython(
        python=python,
        environment=Environment(locked=False, packages_sha256=packages_sha256(packages), packages=packages),
        extra_path=os.environ.get("PYTHONPATH", ""),
    )
