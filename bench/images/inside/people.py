"""The user that everything in our images runs as.

Written by hand: `useradd` notes the day in /etc/shadow and keeps backups, which would differ from build to build.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

NAME: Final = "streamproof"


def add_user(root: Path, *, number: int, home: str) -> None:
    """Add a user and group of one number, without password and shell, and its empty home.

    Args:
        root: of the file system.
        number: of user and group.
        home: its folder, below `root`.
    """
    _append(root / "etc/passwd", f"{NAME}:x:{number}:{number}::{home}:/usr/sbin/nologin\n", number)
    _append(root / "etc/group", f"{NAME}:x:{number}:\n", number)
    own_folder(root / home.lstrip("/"), number)


def own_folder(path: Path, number: int) -> None:
    """Make a folder that belongs to that user alone, to write into."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o700)
    os.chown(path, number, number)


def _append(path: Path, line: str, number: int) -> None:
    entries = path.read_text(encoding="utf-8") if path.exists() else ""
    if any(entry.split(":")[2:3] == [str(number)] for entry in entries.splitlines()):
        return
    path.write_text(entries + ("\n" if entries and not entries.endswith("\n") else "") + line, encoding="utf-8")
