"""The wheels of a lock, fetched by hash once and kept, so that images are built without a network.

pip fetches them: it checks every hash, takes only wheels, and goes wherever this host is configured to get packages
from. What it leaves is kept by content, in `~/.cache/streamproof/wheels/<sha256>/<file>`, for every lock that names it.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from packaging.markers import default_environment
from packaging.requirements import InvalidRequirement, Requirement
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import canonicalize_name, parse_wheel_filename

from bench.bundle.requirements import blocks
from bench.engine.pins import REPOSITORY
from bench.errors import StreamproofError

if TYPE_CHECKING:
    from bench.engine.install import Say

_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_BATCH: Final = 16
"""Packages that are fetched by one pip, which hands over its files when it has all of them: what one of several has
fetched need not be fetched again when another fails."""
_SHOWN_LINES: Final = 8
_STANDARD_ERROR: Final = 2
"""Where pip draws on a terminal: standard output is for what was asked for."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """What wheels are for: CPython on x86-64 Linux with the GNU C library.

    Attributes:
        python: major and minor version ("3.12").
        glibc: minor version of GNU C library 2.
    """

    python: str
    glibc: int

    @property
    def platforms(self) -> list[str]:
        """Platform tags that its wheels may have, best first (PEP 600 and its legacy names)."""
        legacy = {17: "manylinux2014_x86_64", 12: "manylinux2010_x86_64", 5: "manylinux1_x86_64"}
        tags = []
        for minor in range(self.glibc, 4, -1):
            tags.append(f"manylinux_2_{minor}_x86_64")
            tags += [legacy[minor]] if minor in legacy else []
        return [*tags, "linux_x86_64"]

    @property
    def tags(self) -> frozenset[Tag]:
        """Of wheels that can be installed there."""
        major, minor = map(int, self.python.split("."))
        own = cpython_tags((major, minor), platforms=self.platforms)
        return frozenset((*own, *compatible_tags((major, minor), f"cp{major}{minor}", self.platforms)))

    @property
    def markers(self) -> dict[str, str]:
        """Environment of markers (PEP 508). Of the full version only the first two parts are known."""
        return {
            **{name: str(value) for name, value in default_environment().items()},
            "implementation_name": "cpython",
            "os_name": "posix",
            "platform_machine": "x86_64",
            "platform_python_implementation": "CPython",
            "platform_system": "Linux",
            "python_full_version": f"{self.python}.0",
            "python_version": self.python,
            "sys_platform": "linux",
        }


@dataclass(frozen=True, kw_only=True)
class Locked:
    """One package of a lock, for one place.

    Attributes:
        name: canonical.
        line: "name==version", for pip.
        hashes: SHA-256 of every file that may be it.
    """

    name: str
    line: str
    hashes: tuple[str, ...]


def wanted(lock: str, place: Place) -> list[Locked]:
    """The packages of a lock that a place needs.

    Raises:
        StreamproofError: a package has no hash, or a line cannot be read.
    """
    packages = []
    for name, entries in blocks(lock).items():
        for entry in entries:
            head = entry.partition("--hash")[0].rstrip("\\ \n")
            try:
                requirement = Requirement(head)
            except InvalidRequirement as error:
                raise _unreadable(head, str(error)) from error
            hashes = tuple(_HASH.findall(entry))
            if not hashes:
                raise _unreadable(head, "it has no hash")
            if requirement.marker is None or requirement.marker.evaluate(place.markers):
                line = f"{requirement.name}{requirement.specifier}"
                packages.append(Locked(name=canonicalize_name(name), line=line, hashes=hashes))
    return packages


class WheelStore:
    """Wheels by content.

    Args:
        folder: that they are kept in; it is made.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def find(self, package: Locked, place: Place) -> Path | None:
        """The wheel of a package for a place, if it is kept."""
        for digest in package.hashes:
            for path in (self._folder / digest).glob("*.whl"):
                if parse_wheel_filename(path.name)[3] & place.tags:
                    return path
        return None

    def collect(self, lock: str, place: Place, *, name: str, say: Say, terminal: bool) -> list[Path]:
        """All wheels that a place needs of a lock; those that are not kept are fetched.

        Args:
            lock: its text.
            place: what they are for.
            name: of the lock, for people.
            say: takes progress.
            terminal: standard error is a terminal that nobody else draws on.

        Raises:
            StreamproofError: a wheel cannot be had, or its hash is another one.
        """
        packages = wanted(lock, place)
        missing = [package for package in packages if self.find(package, place) is None]
        if missing:
            say(f"Fetching {len(missing)} of the {len(packages)} wheels of {name}, once")
            for start in range(0, len(missing), _BATCH):
                self._fetch(missing[start : start + _BATCH], place, say=say, terminal=terminal)
        found = []
        for package in packages:
            path = self.find(package, place)
            if path is None:
                raise StreamproofError(
                    f"{package.line} has no wheel for Python {place.python} and glibc 2.{place.glibc} in {name}",
                    remedy="Name a base with another Python (--base-python), or make the lock for this one.",
                )
            found.append(path)
        return found

    def _fetch(self, packages: Sequence[Locked], place: Place, *, say: Say, terminal: bool) -> None:
        with tempfile.TemporaryDirectory(prefix=".fetching.", dir=self._folder) as scratch:
            requirements = Path(scratch) / "requirements.txt"
            lines = [" ".join((p.line, *(f"--hash=sha256:{digest}" for digest in p.hashes))) for p in packages]
            requirements.write_text("\n".join(lines) + "\n", encoding="utf-8")
            landing = Path(scratch) / "wheels"
            _pip_download(requirements, landing, place, say=say, terminal=terminal)
            self._keep(landing)

    def _keep(self, landing: Path) -> None:
        for path in landing.glob("*.whl"):
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            target = self._folder / digest
            target.mkdir(exist_ok=True)
            path.chmod(0o644)
            path.rename(target / path.name)


def extract_uv(store: WheelStore, lock: str, place: Place, *, say: Say, terminal: bool) -> bytes:
    """The uv program, out of its locked wheel: what installs the others is pinned like them.

    Raises:
        StreamproofError: the lock has none, or it cannot be had.
    """
    only = "".join(entry for entry in blocks(lock).get("uv", []))
    wheels = store.collect(only, place, name="uv", say=say, terminal=terminal)
    if not wheels:
        raise StreamproofError("docker/locks/tools.txt does not lock uv", remedy="Restore it from git.")
    with zipfile.ZipFile(wheels[0]) as wheel:
        program = next(name for name in wheel.namelist() if name.endswith(".data/scripts/uv"))
        return wheel.read(program)


def _pip_download(requirements: Path, landing: Path, place: Place, *, say: Say, terminal: bool) -> None:
    options = ["download", "--no-deps", "--require-hashes", "--only-binary", ":all:", "--dest", str(landing)]
    target = ["--implementation", "cp", "--python-version", place.python]
    platforms = [option for tag in place.platforms for option in ("--platform", tag)]
    # pip's own cache would keep a second copy of everything.
    quiet = ["--no-cache-dir", "--disable-pip-version-check", "--no-input"]
    command = [*find_pip(), *options, *target, *platforms, *quiet, "--requirement", str(requirements)]
    said: list[str] = []
    with subprocess.Popen(  # noqa: S603  the tool with our own arguments
        command,
        stdin=subprocess.DEVNULL,
        stdout=_STANDARD_ERROR if terminal else subprocess.PIPE,
        stderr=subprocess.PIPE if terminal else subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        try:
            for line in filter(None, map(str.strip, process.stderr or process.stdout or ())):
                said.append(line)
                if line.startswith("Downloading "):
                    say(line)
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        shown = "".join(f"\n  {line}" for line in said[-_SHOWN_LINES:])
        raise StreamproofError(
            f"pip could not fetch the wheels: it ended with status {process.returncode}{shown}",
            remedy="What pip said names the cause. What was fetched before is kept; run the command again. On a host "
            "without network, copy ~/.cache/streamproof/wheels from one that has built the image.",
        )


def find_pip() -> list[str]:
    """A pip: in the checkout's `.tools`, or on the path.

    Raises:
        StreamproofError: there is none.
    """
    for folder in (str(REPOSITORY / ".tools" / "bin"), str(Path(sys.executable).parent), None):
        for name in ("pip", "pip3"):
            if found := shutil.which(name, path=folder):
                return [found]
    raise StreamproofError(
        "pip, which fetches wheels, is not there",
        remedy="Make the tools' environment: python3 -m venv .tools && "
        ".tools/bin/pip install --require-hashes -r docker/locks/tools.txt",
    )


def _unreadable(head: str, why: str) -> StreamproofError:
    return StreamproofError(
        f"the lock cannot be used at {head[:120]!r}: {why}",
        remedy="Make the lock again, as the .in file beside it says.",
    )
