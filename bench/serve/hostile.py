"""Looks at files that anybody may have put there: follows no link, reads plain files only, and no more than a limit."""

from __future__ import annotations

import os
import stat
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from bench.explain.ablate.folder import MARKDOWN, PAGE, PLAN, SUMMARY
from bench.report.verify_files import FILE_COUNT_LIMIT, LIMITS, MEBIBYTE

if TYPE_CHECKING:
    from collections.abc import Iterator

Stamp: TypeAlias = tuple[tuple[str, int, int, int, int], ...]
"""(name, size, time of the last change of content and of anything, inode) of everything in a folder, by name."""

ABLATION_LIMITS: Final = {PLAN: MEBIBYTE, SUMMARY: 16 * MEBIBYTE, MARKDOWN: MEBIBYTE, PAGE: 16 * MEBIBYTE}


ABLATION_FILES: Final = 20_000
"""Files of all runs of an ablation that its stamp covers."""


class RefusedFileError(Exception):
    """A file that is not read; the message says why, in words for people."""


def stamp_of(folder: Path) -> Stamp:
    """What is in a folder, from outside: it changes whenever one of its files does.

    Of an ablation it covers all folders below as well. A folder that cannot be opened holds nothing.
    """
    found = list(_seen(folder, ""))
    if any(name == SUMMARY for name, *_ in found):
        for below, folders, _ in os.walk(folder, followlinks=False):
            for name in folders:
                found += _seen(Path(below, name), f"{os.path.relpath(below, folder)}/{name}/")
            if len(found) > ABLATION_FILES:  # verification reads no more reports than its plan names
                break
    return tuple(sorted(found))


def _seen(folder: Path, prefix: str) -> Iterator[tuple[str, int, int, int, int]]:
    try:
        with os.scandir(folder) as entries:
            # One more than any report has: verification then says so.
            for entry in islice(entries, FILE_COUNT_LIMIT + 1):
                status = entry.stat(follow_symlinks=False)
                yield (
                    f"{prefix}{entry.name}",
                    status.st_size,
                    status.st_mtime_ns,
                    status.st_ctime_ns,
                    status.st_ino,
                )
    except OSError:
        return


def read_file(folder: Path, name: str) -> bytes:
    """A file of a report or an ablation.

    Args:
        folder: where it lies.
        name: one of those that are known; never from an address.

    Raises:
        RefusedFileError: it is missing, no plain file, or too large.
    """
    limit = LIMITS.get(name) or ABLATION_LIMITS[name]
    try:
        # Non-blocking, because opening a named pipe would wait for its writer for ever.
        descriptor = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise RefusedFileError(f"{name} is missing") from error
    except OSError as error:
        raise RefusedFileError(f"{name} cannot be opened: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise RefusedFileError(f"{name} is no plain file")
        content = file.read(limit + 1)
    if len(content) > limit:
        raise RefusedFileError(f"{name} is larger than {limit // 1024:,} KiB")
    return content
