"""Verifies reports one after the other, each in a process of its own, and remembers what came of each by its digest.

Nothing is ever taken for verified because a file says so: the status of an entry is what `bench.report.verify` found
for this server, over the very files that are there now. Files that changed since are verified again.
"""

from __future__ import annotations

import hashlib
import queue
import threading
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from bench.report.apart import EndedError
from bench.report.verify_files import HostileFolder, RefusedError
from bench.serve.hostile import Stamp, stamp_of
from bench.serve.status import (
    VERIFYING,
    VERIFYING_ABLATION,
    WAITING,
    Status,
    refused,
    verify_ablation,
    verify_report,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from bench.report.apart import Apart, Bounds
    from bench.report.keys import TrustedKey
    from bench.serve.entry import Entry


class Checker:
    """Verifies what it is asked for.

    Args:
        trusted: keys by id.
        apart: does the work.
        bounds: of one report.
        now: the clock; for tests.
    """

    def __init__(
        self,
        trusted: Mapping[str, TrustedKey],
        apart: Apart,
        *,
        bounds: Bounds = VERIFYING,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.trusted = trusted
        self._apart = apart
        self._bounds = bounds
        self._now = now
        self._lock = threading.Lock()
        self._by_stamp: dict[tuple[str, Stamp], Status] = {}
        self._by_digest: dict[str, Status] = {}
        self._asked: set[tuple[str, Stamp]] = set()
        self._queue: queue.SimpleQueue[Entry] = queue.SimpleQueue()
        # It waits for ever for what else there is to do; it must not keep the process alive.
        self._thread = threading.Thread(target=self._work, name="verifies reports", daemon=True)

    def start(self) -> None:
        """Begins to work."""
        self._thread.start()

    def ask(self, entries: Iterable[Entry]) -> None:
        """Has those verified that are not yet, in their order. What was not read yet is none of them."""
        for entry in entries:
            key = (entry.id, entry.stamp)
            with self._lock:
                if entry.validity == "not read yet" or key in self._asked:
                    continue
                self._asked.add(key)
            self._queue.put(entry)

    def status(self, entry: Entry) -> Status:
        """What is known of an entry as it was read."""
        with self._lock:
            return self._by_stamp.get((entry.id, entry.stamp), WAITING)

    def check(self, entry: Entry) -> None:
        """Verifies one entry, and waits for it."""
        found = self._check(entry)
        if stamp_of(entry.path) != entry.stamp:  # somebody wrote meanwhile: it is another report, and asked for anew
            return
        with self._lock:
            self._by_stamp[entry.id, entry.stamp] = found

    def _work(self) -> None:
        while True:
            self.check(self._queue.get())

    def _check(self, entry: Entry) -> Status:
        try:
            if entry.kind == "ablation":
                return self._dated(self._apart.run(VERIFYING_ABLATION, verify_ablation, entry.path, self.trusted))
            return self._once(entry.path)
        except EndedError as error:
            return self._dated(refused(error.message))
        except RefusedError as error:
            return self._dated(refused(str(error)))
        except Exception as error:  # noqa: BLE001  one report must not end the thread that looks at the others
            return self._dated(refused(f"{type(error).__name__} while it was verified"))

    def _once(self, path: Path) -> Status:
        """Verifies a report whose bytes were not verified before, wherever they lay."""
        digest = digest_of(path)
        with self._lock:
            known = self._by_digest.get(digest)
        if known is not None:
            return known
        found = self._dated(self._apart.run(self._bounds, verify_report, path, self.trusted))
        if digest_of(path) != digest:
            return self._dated(refused("its files changed while they were verified"))
        with self._lock:
            self._by_digest[digest] = found
        return found

    def _dated(self, found: Status) -> Status:
        return replace(found, at=self._now().strftime("%Y-%m-%d %H:%M:%S UTC"))


def digest_of(report: Path) -> str:
    """Over names and contents of all files of a report.

    Raises:
        RefusedError: it holds a file that no report has.
    """
    with HostileFolder(report) as folder:
        lines = [f"{name} {folder.sha256(name)}" for name in folder.names()]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
