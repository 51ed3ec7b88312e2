"""All reports below a folder. Every look walks over it again; what did not change is not read again."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.explain.ablate.folder import SUMMARY
from bench.report import folder_files as files
from bench.serve.entry import Entry, read_entry
from bench.serve.hostile import stamp_of

if TYPE_CHECKING:
    from collections.abc import Iterator

DEPTH_LIMIT: Final = 12
"""Levels of folders: an ablation's runs lie five below it."""
FOLDER_LIMIT: Final = 20_000
"""Folders looked into in one walk."""


class Catalogue:
    """What lies below one folder.

    Args:
        folder: the one that is served; links below it are not followed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[str, Entry] = {}
        self._lock = threading.Lock()

    def entries(self) -> list[Entry]:
        """Everything that is there now, the newest first; what says no time comes last."""
        with self._lock:
            found: dict[str, Entry] = {}
            for place, inside_ablation in self._places():
                path = self.folder / place
                known = self._known.get(place)
                if known is None or known.stamp != stamp_of(path):
                    known = read_entry(path, place, inside_ablation=inside_ablation)
                found[place] = known
            self._known = found
        # Texts of one form sort by time; a hostile one sorts anywhere, and is shown as it is.
        by_place = sorted(found.values(), key=lambda entry: entry.place)
        return sorted(by_place, key=lambda entry: entry.started_at, reverse=True)

    def _places(self) -> Iterator[tuple[str, bool]]:
        """Folders that hold a report or an ablation, below the served one, and whether an ablation lies above."""
        looked = 0
        waiting = [("", 0, False)]
        while waiting:
            place, depth, inside = waiting.pop()
            looked += 1
            try:
                with os.scandir(self.folder / place) as listed:
                    entries = sorted(listed, key=lambda entry: entry.name)
            except OSError:
                continue
            names = {entry.name for entry in entries}
            ablation = SUMMARY in names
            if ablation or files.REPORT in names:
                yield place, inside
            if depth < DEPTH_LIMIT and (ablation or files.REPORT not in names):
                waiting += [
                    (os.path.join(place, entry.name), depth + 1, inside or ablation)  # noqa: PTH118  names as they are
                    for entry in entries
                    if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)
                ]
            if looked + len(waiting) > FOLDER_LIMIT:
                del waiting[max(0, FOLDER_LIMIT - looked) :]
