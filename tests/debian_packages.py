"""Programs that tests need and Debian has: in CI they are installed when they are missing."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path


class NotInstalledError(Exception):
    """apt-get failed; its own words say why."""


def find_program(name: str, packages: Iterable[str]) -> str | None:
    """Its path, None where it is not there.

    In CI (`CI=true`), as root and with apt-get, packages are installed first where it is missing: by one process at a
    time, for apt-get waits for no other.

    Args:
        name: of the program.
        packages: to install; only looked at where it is missing.

    Raises:
        NotInstalledError: they cannot be installed.
    """
    if _which(name) is None and os.environ.get("CI") == "true" and os.geteuid() == 0 and _which("apt-get"):
        with (Path(tempfile.gettempdir()) / "streamproof-apt-get.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if _which(name) is None:
                _install(packages)
    return _which(name)


def _which(name: str) -> str | None:
    """Debian's daemons are where the path of a user need not lead."""
    return shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")


def _install(packages: Iterable[str]) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "--yes", "--no-install-recommends", *packages]
    for command in (["apt-get", "update"], install):
        done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
        if done.returncode:
            raise NotInstalledError(f"{' '.join(command)} failed: {done.stderr[-500:]}")
