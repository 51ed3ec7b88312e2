"""Installs a hash-locked Python environment whole or not at all.

It is built beside its place and renamed into it when it is finished, so that a folder that is there is complete,
whatever interrupted earlier attempts. Two processes that want the same one do not build it twice.
"""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from bench.engine.pins import REPOSITORY
from bench.errors import StreamproofError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Say: TypeAlias = Callable[[str], None]
"""Takes one line of progress at a time."""

_GIB: Final = 1 << 30
_SHOWN_LINES: Final = 12
"""Of what uv said when it failed; its longest explanation, of a wrong hash, takes as many."""


def find_uv() -> str:
    """The uv program: beside this interpreter, in the checkout's `.tools`, or on the path.

    Raises:
        StreamproofError: there is none.
    """
    for folder in (str(Path(sys.executable).parent), str(REPOSITORY / ".tools" / "bin"), None):
        if found := shutil.which("uv", path=folder):
            return found
    raise StreamproofError(
        "uv, which installs environments, is not there",
        remedy="Install the pinned one: python3 -m venv .tools && "
        ".tools/bin/pip install --require-hashes -r docker/locks/tools.txt",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """One environment to be.

    Attributes:
        name: for people.
        lock: requirements file with the hash of every package.
        target: the folder that it shall be.
        gib: space that it takes, in GiB.
        say: takes progress.
        interpreter: the Python that it is built on; None is the one that runs this.
        terminal: standard error is a terminal that nobody else draws on: the installer may draw its own progress bars
            there. Otherwise what it says goes line by line to `say`.
    """

    name: str
    lock: Path
    target: Path
    gib: float
    say: Say
    terminal: bool
    interpreter: Path | None = None

    @property
    def python(self) -> Path:
        """Its interpreter. A link; it dangles when the interpreter that it was built on is uninstalled."""
        return self.target / "bin" / "python"

    def is_there(self) -> bool:
        """Whether it is installed and its interpreter still exists."""
        return self.python.exists()

    def ensure(self) -> None:
        """Install it if it is not there.

        Raises:
            StreamproofError: uv or disk space is missing, or uv failed. What was begun is removed.
        """
        if self.is_there():
            return
        uv = find_uv()
        self.target.parent.mkdir(parents=True, exist_ok=True)
        with self._alone() as lock:
            if self.is_there():  # another process has installed it while we waited
                return
            self._clear_away()
            self._check_disk(uv)
            building = Path(tempfile.mkdtemp(prefix=f".{self.target.name}.", dir=self.target.parent))
            try:
                self._install(uv, building, lock)
                building.rename(self.target)
            finally:
                shutil.rmtree(building, ignore_errors=True)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[int]:
        """Hold the installation's lock and yield its descriptor.

        uv inherits it, so that even a uv that outlives us keeps others away from what it writes.
        """
        with self.target.with_name(f"{self.target.name}.lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.say(f"Another process is installing {self.name}; waiting for it")
                fcntl.flock(file, fcntl.LOCK_EX)
            yield file.fileno()

    def _clear_away(self) -> None:
        """Remove what interrupted attempts left, and an environment whose interpreter is gone."""
        for leftover in (*self.target.parent.glob(f".{self.target.name}.*"), self.target):
            shutil.rmtree(leftover, ignore_errors=True)

    def _check_disk(self, uv: str) -> None:
        """Refuse before anything is downloaded. uv unpacks into its cache, and links from there where it can."""
        command = [uv, "cache", "dir"]
        answer = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603  the pinned tool
        for place in (Path(answer.stdout.strip()), self.target.parent):
            existing = next(folder for folder in (place, *place.parents) if folder.exists())
            free = shutil.disk_usage(existing).free / _GIB
            if free < self.gib:
                raise StreamproofError(
                    f"installing {self.name} needs {self.gib:.1f} GiB; {free:.1f} GiB are free at {existing}",
                    remedy="Make room there, or set XDG_CACHE_HOME and UV_CACHE_DIR to folders on a larger disk.",
                )

    def _install(self, uv: str, building: Path, lock: int) -> None:
        self.say(f"Installing {self.name} ({self.gib:.1f} GiB, once)")
        # Relocatable: its scripts must find their interpreter after the renaming.
        venv = ["venv", "--quiet", "--no-project", "--allow-existing", "--relocatable", "--python"]
        self._run([uv, *venv, str(self.interpreter or sys.executable), str(building)], lock)
        # Compiled once, for every start: it cuts `import vllm` from 11 to 4 seconds, and where Python is told to write
        # no bytecode it would otherwise be compiled again each time.
        install = ["pip", "install", "--require-hashes", "--no-deps", "--compile-bytecode"]
        self._run([uv, *install, "--python", str(building / "bin" / "python"), "-r", str(self.lock.resolve())], lock)

    def _run(self, command: Sequence[str], lock: int) -> None:
        said: list[str] = []
        with subprocess.Popen(  # noqa: S603  the pinned tool with our own arguments
            command,
            cwd=self.target.parent,
            stdin=subprocess.DEVNULL,
            stdout=None if self.terminal else subprocess.DEVNULL,
            stderr=None if self.terminal else subprocess.PIPE,
            text=True,
            errors="replace",
            pass_fds=(lock,),
        ) as process:
            for line in filter(None, map(str.rstrip, process.stderr or ())):
                said.append(line)
                if not line.startswith(" + "):  # hundreds of them, and the lock file has them all
                    self.say(line)
        if process.returncode:
            raise StreamproofError(
                f"{self.name} could not be installed: uv ended with status {process.returncode}"
                + "".join(f"\n  {line}" for line in said[-_SHOWN_LINES:]),
                remedy="What uv said names the cause. Nothing of the environment is left; run the command again.",
            )
