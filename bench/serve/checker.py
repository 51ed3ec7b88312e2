"""Verifies reports in a thread of its own, one after the other, and remembers what came of each by its digest.

Nothing is ever taken for verified because a file says so: the status of an entry is what `bench.report.verify` found in
this process, over the very files that are there now. Files that changed since are verified again.
"""

from __future__ import annotations

import hashlib
import queue
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from bench.errors import StreamproofError
from bench.explain.ablate import folder as ablation_folder
from bench.report import folder_files as files
from bench.report.verify import verify
from bench.report.verify_files import HostileFolder, RefusedError
from bench.serve.hostile import ABLATION_LIMITS, RefusedFileError, Stamp, read_file, stamp_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from bench.report.keys import TrustedKey
    from bench.report.render.verdict import Tone
    from bench.serve.entry import Entry

State: TypeAlias = Literal["waiting", "verified", "refused"]
FINDINGS_TOLD: Final = 3
REASON_LETTERS: Final = 140


@dataclass(frozen=True, slots=True)
class Status:
    """What this server knows of a report.

    Attributes:
        state: "waiting" until it was looked at.
        at: when that was, UTC; empty while it waits.
        by: who signed; empty where it is not verified.
        why: what speaks against it, or was not checked.
    """

    state: State
    at: str = ""
    by: str = ""
    why: tuple[str, ...] = ()

    @property
    def tone(self) -> Tone:
        """Class of the style sheet."""
        tones: dict[State, Tone] = {"waiting": "plain", "verified": "good", "refused": "bad"}
        return tones[self.state]

    @property
    def reason(self) -> str:
        """The first of what speaks against it, short enough for a list; empty where nothing does."""
        if self.state != "refused" or not self.why:
            return ""
        first = self.why[0]
        return first if len(first) <= REASON_LETTERS else f"{first[:REASON_LETTERS]}..."

    @property
    def says(self) -> str:
        """In one line."""
        if self.state == "waiting":
            return "not verified yet by this server"
        return f"{self.state} by this server at {self.at}"


WAITING: Final = Status("waiting")


class Checker:
    """Verifies what it is asked for.

    Args:
        trusted: keys by id.
        now: the clock; for tests.
    """

    def __init__(
        self, trusted: Mapping[str, TrustedKey], *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self.trusted = trusted
        self._now = now
        self._lock = threading.Lock()
        self._by_stamp: dict[tuple[str, Stamp], Status] = {}
        self._by_digest: dict[str, Status] = {}
        self._asked: set[tuple[str, Stamp]] = set()
        self._queue: queue.SimpleQueue[Entry | None] = queue.SimpleQueue()
        # A verification cannot be interrupted; it must not keep the process alive either.
        self._thread = threading.Thread(target=self._work, name="verifies reports", daemon=True)

    def start(self) -> None:
        """Begins to work."""
        self._thread.start()

    def stop(self) -> None:
        """Ends after the report that is under way; does not wait for it."""
        self._queue.put(None)

    def ask(self, entries: Iterable[Entry]) -> None:
        """Has those verified that are not yet, in their order."""
        for entry in entries:
            key = (entry.id, entry.stamp)
            with self._lock:
                if key in self._asked:
                    continue
                self._asked.add(key)
            self._queue.put(entry)

    def status(self, entry: Entry) -> Status:
        """What is known of an entry as it was read."""
        with self._lock:
            return self._by_stamp.get((entry.id, entry.stamp), WAITING)

    def check(self, entry: Entry) -> None:
        """Verifies one entry here and now."""
        found = self._check(entry)
        if stamp_of(entry.path) != entry.stamp:  # somebody wrote meanwhile: it is another report, and asked for anew
            return
        with self._lock:
            self._by_stamp[entry.id, entry.stamp] = found

    def _work(self) -> None:
        while (entry := self._queue.get()) is not None:
            self.check(entry)

    def _check(self, entry: Entry) -> Status:
        try:
            if entry.kind == "ablation":
                return self._ablation(entry.path)
            return self._once(entry.path)
        except (StreamproofError, RefusedError, RefusedFileError) as error:
            return self._refused(error.message if isinstance(error, StreamproofError) else str(error))
        except Exception as error:  # noqa: BLE001  one report must not end the thread that looks at the others
            return self._refused(f"{type(error).__name__} while it was verified")

    def _once(self, path: Path) -> Status:
        """Verifies a report whose bytes were not verified before, wherever they lay."""
        digest = digest_of(path)
        with self._lock:
            known = self._by_digest.get(digest)
        if known is not None:
            return known
        found = self._report(path)
        if digest_of(path) != digest:
            return self._refused("its files changed while they were verified")
        with self._lock:
            self._by_digest[digest] = found
        return found

    def _report(self, path: Path) -> Status:
        found = verify(path, self.trusted)
        if not found.verified:
            reasons = [f"{finding.file} {finding.reason}" for finding in found.findings]
            more = len(reasons) - FINDINGS_TOLD
            rest = [f"and {more:,} more"] if more > 0 else []
            return self._refused(*reasons[:FINDINGS_TOLD], *rest)
        if found.key is None:
            by = ""
        elif found.key.identity is not None:
            by = f"{found.key.identity.name}, says {found.key.identity.issuer} ({found.key.origin})"
        else:
            by = f"key {found.key.key_id[:12]} ({found.key.origin})"
        return Status("verified", self._time(), by, found.notes)

    def _ablation(self, path: Path) -> Status:
        for name in (*ABLATION_LIMITS, files.ATTESTATION, files.SIGNER):
            read_file(path, name)  # raises where it is a link, no plain file, or too large
        ablation_folder.check(path, self.trusted)
        return Status("verified", self._time(), "a trusted key, as every report of it")

    def _refused(self, *why: str) -> Status:
        return Status("refused", self._time(), why=why)

    def _time(self) -> str:
        return self._now().strftime("%Y-%m-%d %H:%M:%S UTC")


def digest_of(report: Path) -> str:
    """Over names and contents of all files of a report.

    Raises:
        RefusedError: it holds a file that no report has.
    """
    with HostileFolder(report) as folder:
        lines = [f"{name} {folder.sha256(name)}" for name in folder.names()]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
