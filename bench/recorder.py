"""What a run writes as it goes: request records and observations, each a whole line the moment it is known.

A full disk must not keep the run from saying so. A reserve file is laid down first; when a line does not fit, the
reserve is given up, which leaves room for the last observation and for the report.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self, TypeAlias

from bench.errors import StreamproofError
from bench.load.journal import Journal
from bench.observe.observations import Interrupted
from bench.observe.observed import Observed
from bench.records import RequestRecord
from bench.report import folder_files as files
from bench.report.verify_text import printable

RESERVE_BYTES: Final = 4 * 1024 * 1024
"""The report of some ten thousand requests fits into it."""

Cause: TypeAlias = Literal["user", "engine", "disk", "client"]


class RunEnded(Exception):  # noqa: N818  no error of ours: it ends a run in good order
    """The run ends early; what was recorded stays.

    Args:
        cause: see `bench.observe.observations.Interrupted`.
        detail: one line.
    """

    def __init__(self, cause: Cause, detail: str) -> None:
        super().__init__(detail)
        self.cause = cause
        self.detail = detail


class Recorder:
    """The open files of a run. Use as a context manager.

    Args:
        folder: of the report.

    Raises:
        StreamproofError: the folder cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self._reserve = files.beside(folder / "reserve")
        self._records = Journal(folder / files.RUNNING_RECORDS)
        self._observations = Journal(folder / files.OBSERVATIONS)
        try:
            # Real blocks: a sparse file would reserve nothing.
            with self._reserve.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, RESERVE_BYTES)
        except OSError as error:
            self.close()
            raise StreamproofError(
                f"there is no room for a report in {folder}: {error.strerror}",
                remedy="Free some space on that disk, or name another folder with --reports.",
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def record(self, record: RequestRecord) -> None:
        """Keeps a request.

        Raises:
            RunEnded: the disk is full.
        """
        try:
            self._records.record(record)
        except StreamproofError as error:
            raise RunEnded("disk", error.message) from error

    def observe(self, observation: Observed) -> None:
        """Keeps an observation.

        Raises:
            RunEnded: the disk is full.
        """
        try:
            self._observations.line(observation.model_dump_json().encode() + b"\n")
        except StreamproofError as error:
            raise RunEnded("disk", error.message) from error

    def sync(self) -> None:
        """Everything so far is on the disk; between points, it may take long.

        Raises:
            RunEnded: the disk did not take it.
        """
        try:
            self._records.sync()
            self._observations.sync()
        except StreamproofError as error:
            raise RunEnded("disk", error.message) from error

    def interrupted(self, ended: RunEnded, *, t: float, run: int) -> None:
        """Writes the end of a run that ended early, into the reserve if need be."""
        self._reserve.unlink(missing_ok=True)
        self.observe(Interrupted(t=t, run=run, cause=ended.cause, detail=printable(ended.detail, 300)))

    def close(self) -> None:
        """Gives up the reserve and closes the files. Idempotent."""
        self._reserve.unlink(missing_ok=True)
        self._records.close()
        self._observations.close()
