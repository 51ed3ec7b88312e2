"""Where bundles are made and where they are carried to."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.bundle.entries import CLIENT_PATHS
from bench.engine.pins import REPOSITORY

HEAVY: Final = {"cryptography", "faker", "hf-xet", "huggingface-hub", "numpy", "pyarrow", "tokenizers"}
"""Packages of the client that its help, its recipes and its process engine do without: packing them takes a minute."""

OUR_RULES: Final = ("arrow-elsewhere", "tests-of-the-client", "hub-transfers")
"""Rules about them."""

_WHEN: Final = {"GIT_AUTHOR_DATE": "1764463904 +0000", "GIT_COMMITTER_DATE": "1764463904 +0000"}

_LOOPBACK_UP: Final = """\
import fcntl, os, socket, struct, sys
with socket.socket() as s:
    fcntl.ioctl(s, 0x8914, struct.pack("16sh14x", b"lo", 1))  # SIOCSIFFLAGS, IFF_UP
os.execvp(sys.argv[1], sys.argv[1:])
"""


def copy_repository(to: Path) -> None:
    """The client's files as they are now, committed or not."""
    known = ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *CLIENT_PATHS]
    listed = subprocess.run(["git", "-C", str(REPOSITORY), *known], check=True, capture_output=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (REPOSITORY / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / name, to / name)


def commit_all(repository: Path) -> None:
    """A repository with one commit that holds everything in the folder."""
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
        subprocess.run(["git", "-C", str(repository), *who, *arguments], check=True, env=os.environ | _WHEN)


class BareHost:
    """Runs commands without network, with nothing on the path but what an installation may need.

    Args:
        folder: an empty one; where the commands run.
        python: the host's Python.
    """

    def __init__(self, folder: Path, python: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir(parents=True)
        (folder / "home").mkdir()
        for tool in ("sh", "tar", "xz"):
            (folder / "bin" / tool).symlink_to(str(shutil.which(tool)))
        # A link would not do: a Python in an environment finds that by the path that it is called by.
        (folder / "bin" / "python3").write_text(f'#!/bin/sh\nexec {python} "$@"\n')
        (folder / "bin" / "python3").chmod(0o755)

    def run(
        self, command: Sequence[str], *, loopback: bool = False, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command in a network namespace of its own.

        Args:
            command: program and arguments.
            loopback: let it reach itself: a namespace begins without.
            env: more environment variables.
        """
        own = {"PATH": str(self.folder / "bin"), "HOME": str(self.folder / "home"), **(env or {})}
        up = ["python3", "-c", _LOOPBACK_UP] if loopback else []
        return subprocess.run(
            [str(shutil.which("unshare")), "--map-root-user", "--net", *up, *command],
            check=False,
            capture_output=True,
            text=True,
            env=own,
            cwd=self.folder,
        )
