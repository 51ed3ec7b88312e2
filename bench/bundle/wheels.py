"""Fetches the wheels of a lock for another host and unpacks them into one folder.

uv does it: it checks every hash against the lock, takes only wheels that the host's Python can load, and never builds
or runs anything of them.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.bundle.requirements import blocks
from bench.engine.install import find_uv
from bench.errors import StreamproofError

MACHINE: Final = "x86_64"
PLATFORM: Final = "x86_64-manylinux_2_39"
"""The newest GNU C library that a host may have to have: Ubuntu 24.04's. What the packed wheels really need is less
most of the time, and the installer asks for no more than that."""

_MANYLINUX: Final = re.compile(r"manylinux_2_(\d+)_")
_LEGACY: Final = {"manylinux1": 5, "manylinux2010": 12, "manylinux2014": 17}
"""PEP 600's own equivalents."""


@dataclass(frozen=True, kw_only=True)
class Host:
    """What the wheels are for.

    Attributes:
        python: major and minor version ("3.12"), CPython.
    """

    python: str

    @property
    def tag(self) -> str:
        """As extension modules name it: "312"."""
        return self.python.replace(".", "")


def fetch(requirements: str, folder: Path, host: Host) -> None:
    """Installs a lock's wheels into `folder`, which is made.

    Args:
        requirements: a lock with hashes.
        folder: the site folder to be.
        host: what they are for.

    Raises:
        StreamproofError: uv is missing or failed; its own words say why.
    """
    folder.mkdir(parents=True)
    if not blocks(requirements):
        return
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write(requirements)
        file.flush()
        _uv(
            *("pip", "install", "--quiet", "--no-config", "--no-python-downloads"),
            *("--target", str(folder), "--python", sys.executable),
            *("--python-version", host.python, "--python-platform", PLATFORM),
            *("--require-hashes", "--no-deps", "--only-binary", ":all:", "--no-compile-bytecode"),
            *("-r", file.name),
        )


def client_requirements(repository: Path) -> str:
    """The client's own closure, with hashes, from a checkout's uv.lock.

    Raises:
        StreamproofError: uv is missing or failed.
    """
    return _uv(
        *("export", "--quiet", "--frozen", "--no-dev", "--no-emit-project", "--no-header"),
        *("--format", "requirements.txt", "--project", str(repository)),
    )


def glibc_needed(site: Path) -> int:
    """The minor version of the GNU C library 2 that a folder's wheels ask for, by their tags (PEP 600); at least 17.

    A wheel with several platform tags runs where any of them fits. A wheel that was built without a tag of this kind
    ("linux_x86_64") says nothing about it.
    """
    needed = 17
    for wheel in site.glob("*.dist-info/WHEEL"):
        tags = " ".join(line for line in wheel.read_text(encoding="utf-8").splitlines() if line.startswith("Tag:"))
        minors = [int(minor) for minor in _MANYLINUX.findall(tags)]
        minors += [minor for name, minor in _LEGACY.items() if f"{name}_" in tags]
        if minors:
            needed = max(needed, min(minors))
    return needed


def _uv(*arguments: str) -> str:
    command = [find_uv(), *arguments]
    answer = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603
    if answer.returncode:
        said = "".join(f"\n  {line}" for line in answer.stderr.strip().splitlines()[-8:])
        raise StreamproofError(
            f"uv {' '.join(arguments[:2])} ended with status {answer.returncode}{said}",
            remedy="What uv said names the cause; without network, wheels come from uv's cache if they are in it.",
        )
    return answer.stdout
