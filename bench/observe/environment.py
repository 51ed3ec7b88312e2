"""`environment.json`: what a measurement was made on and with. No secrets: of the variables only a short list."""

from __future__ import annotations

import os
import platform
import subprocess
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict

from bench.engine.child_env import fabric_variables
from bench.observe.gpu import Gpu, GpuDriver, Gpus
from bench.observe.host import Host, describe_host
from bench.observe.packages import installed_packages, packages_sha256

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_VARIABLES: Final = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "NVIDIA_VISIBLE_DEVICES",
    "OMP_NUM_THREADS",
    "PYTHONHASHSEED",
    "PYTHONOPTIMIZE",
    "MALLOC_ARENA_MAX",
    "LD_PRELOAD",
)
"""Variables that can change a number and carry no secret."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Client(_Part):
    """The software that measures.

    Attributes:
        python: implementation and version.
        packages: name to version. packages_sha256: hash over them (`bench.observe.packages`).
        commit: of the git checkout that it runs from; None outside of one.
        dirty: whether that checkout differs from its commit; None outside of one.
    """

    python: str
    packages: dict[str, str]
    packages_sha256: str
    commit: str | None
    dirty: bool | None


class Environment(_Part):
    """Everything that `environment.json` says.

    Attributes:
        host: the machine.
        driver: of the GPUs; None where there is none.
        gpus: those of this host; of a run whose engine is ours, those that it uses.
        client: the software that measures.
        variables: environment variables that can change a number, those that are set.
    """

    host: Host
    driver: GpuDriver | None
    gpus: tuple[Gpu, ...]
    client: Client
    variables: dict[str, str]


def describe_environment(repository: Path, variables: Mapping[str, str] = os.environ) -> Environment:
    """What this process runs on and with, as it stands now.

    Args:
        repository: the git checkout that the code runs from.
        variables: the environment variables to choose from.
    """
    with Gpus() as gpus:
        driver, described = gpus.driver(), gpus.describe()
    packages = installed_packages()
    commit, dirty = _git(repository)
    return Environment(
        host=describe_host(),
        driver=driver,
        gpus=described,
        client=Client(
            python=f"{platform.python_implementation()} {platform.python_version()}",
            packages=packages,
            packages_sha256=packages_sha256(packages),
            commit=commit,
            dirty=dirty,
        ),
        variables={
            **{name: variables[name] for name in _VARIABLES if name in variables},
            **fabric_variables(variables),
        },
    )


def _git(repository: Path) -> tuple[str | None, bool | None]:
    """Commit and whether tracked or new files differ from it."""

    def ask(*arguments: str) -> str:
        command = ["git", "-C", str(repository), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()  # noqa: S603

    try:
        # A folder inside somebody else's checkout (an installed copy) is none of it.
        if os.path.realpath(ask("rev-parse", "--show-toplevel")) != os.path.realpath(repository):
            return None, None
        return ask("rev-parse", "HEAD"), bool(ask("status", "--porcelain"))
    except (OSError, subprocess.CalledProcessError):
        return None, None
