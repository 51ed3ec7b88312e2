"""What an installed bundle offers to a run: its engine, its caches, the commit that its client was made from.

The installer leaves `bundle.json` beside the folder that the client runs from. Where there is none, the client runs
from a git checkout and everything here is None.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bench.bundle.host.layout import CACHES, ENGINE_SITE, HUB, INSTALLED
from bench.bundle.hosts import normalized
from bench.engine.child_env import child_environment
from bench.engine.environment import EngineEnvironment
from bench.engine.pins import REPOSITORY, Pins, load_pins
from bench.errors import StreamproofError
from bench.observe.packages import installed_packages, packages_sha256
from recipes.fingerprint import file_sha256

_ASK: Final = (
    "import importlib.metadata as m, json; print(json.dumps([(d.name, d.version) for d in m.distributions()]))"
)
_INSTALL_AGAIN: Final = "Install the bundle again, into another folder."


class _Known(BaseModel):
    """`bundle.json`, as `bench.bundle.host.finish` writes it."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    schema_: Literal[1] = Field(alias="schema")
    target: str
    version: str
    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
    engine: str
    engine_lock_sha256: str
    python: str
    host_packages: dict[str, str]
    signer: str
    image: str | None


@dataclass(frozen=True)
class InstalledBundle:
    """A bundle that is installed.

    Attributes:
        root: its folder.
        target: the target that it was made for.
        commit: of the repository that its client was made from; nothing uncommitted is in it.
        signer: id of the key that signed it.
        image: name of the image that came with it; None where the engine's packages did.
    """

    root: Path
    target: str
    commit: str
    signer: str
    image: str | None

    @property
    def caches(self) -> Path:
        """Where its engines keep what they compile: `bench.engine.caches` says how. It need not exist."""
        return self.root / CACHES


def installed_bundle(repository: Path = REPOSITORY) -> InstalledBundle | None:
    """The bundle that this client was installed from, or None.

    Raises:
        StreamproofError: `bundle.json` is not what the installer writes.
    """
    known = _read(repository.parent / INSTALLED)
    if known is None:
        return None
    return InstalledBundle(repository.parent, known.target, known.commit, known.signer, known.image)


def offline_environment(root: Path) -> dict[str, str]:
    """Environment variables for an engine that would ask a hub: nothing is asked.

    Args:
        root: of the bundle: where it carries a checkpoint, that is found there.
    """
    hub = {"HF_HUB_CACHE": str(root / HUB)} if (root / HUB).is_dir() else {}
    return {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", **hub}


def engine_environment(
    name: str, *, pins: Pins | None = None, repository: Path = REPOSITORY
) -> EngineEnvironment | None:
    """The engine of the installed bundle: the host's Python with the bundle's packages before its own.

    Args:
        name: a recipe's `engine.lock`.
        pins: the pinned versions; None reads docker/pins.toml.
        repository: the folder that the client runs from.

    Returns:
        The environment; None where no bundle is installed. Its hash is over the bundle's packages and those that it
        left to the host, as that interpreter finds them now.

    Raises:
        UsageError: no such environment is pinned.
        StreamproofError: the bundle carries another engine, or the host's Python is gone or has changed too much.
    """
    known = _read(repository.parent / INSTALLED)
    if known is None:
        return None
    pin = (pins or load_pins()).engine(name)
    if name != known.engine or file_sha256(repository / pin.lock) != known.engine_lock_sha256:
        raise StreamproofError(
            f"this bundle carries the engine {known.engine}; the recipe needs {name}.",
            remedy=f"Run {known.target}, or make a bundle of the other target: just bundle TARGET",
        )
    if known.image is not None:
        raise StreamproofError(
            f"this bundle carries the engine as the image {known.image}, and not its packages.",
            remedy="Run it in Docker (--engine docker), or make a bundle without --image.",
        )
    site = repository.parent / ENGINE_SITE
    env = {**pin.env, **offline_environment(repository.parent), "PYTHONPATH": str(site)}
    found = _packages(known, child_environment(env))
    wanted = {*installed_packages(site), *known.host_packages}
    if missing := sorted(wanted - found.keys()):
        raise StreamproofError(
            f"{known.python} no longer has {', '.join(missing)}, which the bundle leaves to the host.",
            remedy=f"Install it there again. {_INSTALL_AGAIN}",
        )
    return EngineEnvironment(
        name=name,
        python=Path(known.python),
        module=pin.module,
        env=env,
        packages_sha256=packages_sha256({package: found[package] for package in wanted}),
    )


def _packages(known: _Known, env: dict[str, str]) -> dict[str, str]:
    """Version by normalized name of everything that the engine's interpreter finds."""
    try:
        answer = subprocess.run(  # noqa: S603  the interpreter that the installer ran with
            [known.python, "-c", _ASK], check=True, capture_output=True, text=True, env=env, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise StreamproofError(
            f"the host's Python, which runs the engine, does not start: {known.python}: {error}", remedy=_INSTALL_AGAIN
        ) from error
    found: dict[str, str] = {}
    for package, version in json.loads(answer.stdout):
        found.setdefault(normalized(package), version)  # the first on the path is the one that is imported
    return found


def _read(path: Path) -> _Known | None:
    try:
        return _Known.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise StreamproofError(f"{path} cannot be used: {error}", remedy=_INSTALL_AGAIN) from error
