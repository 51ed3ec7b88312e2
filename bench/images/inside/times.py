"""One time for everything that a build has written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def set_times(root: Path, *, since_ns: int, epoch: int) -> int:
    """Give everything that was made or changed since `since_ns` the time `epoch`.

    What changed is told by the time that only the kernel sets (ctime): packages bring old times of their own.

    Args:
        root: of the file system; other file systems mounted below it are left alone.
        since_ns: of the same clock as the file system's, in nanoseconds since 1970.
        epoch: seconds since 1970 (https://reproducible-builds.org/specs/source-date-epoch/).

    Returns:
        How many files and folders got it.
    """
    touched = [path for path, status in _walk(root, root.lstat().st_dev) if status.st_ctime_ns >= since_ns]
    for path in touched:
        os.utime(path, (epoch, epoch), follow_symlinks=False)
    return len(touched)


def _walk(folder: Path, device: int) -> Iterator[tuple[Path, os.stat_result]]:
    """Everything on one file system, folders after what is in them."""
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            status = entry.stat(follow_symlinks=False)
            if not entry.is_dir(follow_symlinks=False):  # of a file, an overlay can tell the device of a lower layer
                yield Path(entry.path), status
            elif status.st_dev == device:
                yield from _walk(Path(entry.path), device)
    yield folder, folder.lstat()
