"""All reports below a folder. Every look walks over it again; what did not change is not read again.

Folders are looked at from outside here; what is in their files is read in a process of its own for each of them, one
after the other. Whoever looks waits for that a little, and then gets what there is.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.explain.ablate.folder import SUMMARY
from bench.report import folder_files as files
from bench.report.apart import EndedError
from bench.serve.entry import READING, Entry, Seen, read_entry, unread, unreadable
from bench.serve.hostile import stamp_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.report.apart import Apart, Bounds

DEPTH_LIMIT: Final = 12
"""Levels of folders: an ablation's runs lie five below it."""
FOLDER_LIMIT: Final = 20_000
"""Folders looked into in one walk."""
PATIENCE_S: Final = 1.0
"""For what was not read yet: a hundred honest reports."""


class Catalogue:
    """What lies below one folder.

    Args:
        folder: the one that is served; links below it are not followed.
        apart: reads the folders.
        bounds: of reading one folder.
        patience_s: how long a look waits for what was not read yet.
    """

    def __init__(self, folder: Path, apart: Apart, *, bounds: Bounds = READING, patience_s: float = PATIENCE_S) -> None:
        self.folder = folder
        self._apart = apart
        self._bounds = bounds
        self._patience_s = patience_s
        self._known: dict[str, Entry] = {}
        self._unread: dict[str, Seen] = {}
        self._reader: threading.Thread | None = None
        self._lock = threading.Lock()

    def entries(self) -> list[Entry]:
        """Everything that is there now, the newest first; what says no time comes last.

        What is not read by then is there as such; it is read meanwhile, and one of the next looks has it.
        """
        found = {seen.place: seen for seen in self._walk()}
        reader = self._read(found)
        if reader is not None:
            reader.join(self._patience_s)
        with self._lock:
            known = dict(self._known)
        entries = [known[place] if _is_of(known.get(place), seen) else unread(seen) for place, seen in found.items()]
        # Texts of one form sort by time; a hostile one sorts anywhere, and is shown as it is.
        by_place = sorted(entries, key=lambda entry: entry.place)
        return sorted(by_place, key=lambda entry: entry.started_at, reverse=True)

    def _read(self, found: dict[str, Seen]) -> threading.Thread | None:
        """Has read what was not yet; returns the thread that is at it."""
        with self._lock:
            self._known = {place: entry for place, entry in self._known.items() if place in found}
            self._unread = {place: seen for place, seen in found.items() if not _is_of(self._known.get(place), seen)}
            if self._unread and self._reader is None:
                self._reader = threading.Thread(target=self._read_all, name="reads reports", daemon=True)
                self._reader.start()
            return self._reader

    def _read_all(self) -> None:
        while (seen := self._next()) is not None:
            try:
                entry = self._apart.run(self._bounds, read_entry, seen)
            except EndedError as error:
                entry = unreadable(seen, error.message)
            except Exception as error:  # noqa: BLE001  one folder must not end the thread that reads the others
                entry = unreadable(seen, f"{type(error).__name__} while it was read")
            with self._lock:
                self._known[seen.place] = entry

    def _next(self) -> Seen | None:
        """What is to be read next; None when there is nothing more, and the thread ends."""
        with self._lock:
            while self._unread:
                place = next(iter(self._unread))
                seen = self._unread.pop(place)
                if not _is_of(self._known.get(place), seen):  # somebody looked while it was read
                    return seen
            self._reader = None
            return None

    def _walk(self) -> Iterator[Seen]:
        for place, inside in self._places():
            path = self.folder / place
            yield Seen(path, place, stamp_of(path), inside)

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


def _is_of(entry: Entry | None, seen: Seen) -> bool:
    """Whether an entry is what was read of these very files."""
    return entry is not None and entry.stamp == seen.stamp
