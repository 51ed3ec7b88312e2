"""Writes what an archive unpacks to, and counts it while it does."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.report.intake.members import refuse
from bench.report.verify_files import MEBIBYTE, Finding, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

RATIO_LIMIT: Final = 100
"""Bytes unpacked for one that is packed. Our logs and observations come to 20, page and records to less than 5."""
RATIO_FREE: Final = 64 * MEBIBYTE
"""Unpacked bytes that any archive may come to."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """How far an archive may unpack.

    Attributes:
        name: of the archive.
        packed: its size in bytes.
    """

    name: str
    packed: int

    def check(self, unpacked: int) -> None:
        """Refuses a bomb.

        Raises:
            RefusedError: so many bytes are more than an honest archive of this size comes to.
        """
        if unpacked > RATIO_FREE + RATIO_LIMIT * self.packed:
            reason = f"unpacks {self.packed:,} bytes to {unpacked:,} or more: a bomb"
            raise RefusedError(Finding(self.name, reason))


def write_file(folder: Path, name: str, size: int, pieces: Iterable[bytes]) -> None:
    """Writes one file.

    Args:
        folder: to write to; nobody else writes there.
        name: one of a report's files, not there yet.
        size: in bytes, as the archive claims.
        pieces: of its content; no more of them are taken than fit.

    Raises:
        RefusedError: the content is longer or shorter than that.
        OSError: it cannot be written.
    """
    descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    left = size
    with os.fdopen(descriptor, "wb") as file:
        for piece in pieces:
            left -= len(piece)
            if left < 0:
                refuse(name, f"unpacks to more than the {size:,} bytes that the archive claims")
            file.write(piece)
    if left:
        refuse(name, f"unpacks to {size - left:,} bytes; the archive claims {size:,}")
