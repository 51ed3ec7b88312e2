"""What somebody may do to the folder of a report to harm whoever reads it."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.report import folder_files as files
from tests.report.make_bomb import BOMB

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@dataclass(frozen=True)
class Hostile:
    """One such thing.

    Attributes:
        make: does it to a folder.
        why: pattern of what a reader says who refuses it.
    """

    make: Callable[[Path], None]
    why: str


def endless(folder: Path) -> None:
    """The environment never ends."""
    (folder / files.ENVIRONMENT).unlink()
    (folder / files.ENVIRONMENT).symlink_to("/dev/zero")


def never_opened(folder: Path) -> None:
    """Whoever opens the observations waits for ever."""
    (folder / files.OBSERVATIONS).unlink()
    os.mkfifo(folder / files.OBSERVATIONS)


def too_large(folder: Path) -> None:
    """The recipe is larger than any."""
    os.truncate(folder / files.RECIPE, (1 << 20) + 1)


def bomb(folder: Path) -> None:
    """The records unpack to more than they claim."""
    shutil.copy(BOMB, folder / files.RECORDS)


EVERYWHERE = (
    Hostile(endless, r"environment\.json cannot be opened: Too many levels of symbolic links"),
    Hostile(never_opened, r"observations\.jsonl is no plain file"),
    Hostile(too_large, r"recipe\.resolved\.toml is larger than 1,024 KiB"),
    Hostile(bomb, r"requests\.parquet unpacks to far more than it claims"),
)
"""What every reader of unsigned folders refuses."""
