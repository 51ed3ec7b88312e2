"""Records to disk as they come, so that whatever ends a run early leaves what it measured.

One JSON line per record, each handed to the kernel in one write to a file opened for appending: a crash of ours loses
nothing that was written, and a crash of the machine at most what came after the last `sync`. A write that a full disk
cuts short is taken back, so the file always ends with a whole line unless the machine went down while writing; such a
torn last line is dropped when the file is read, and the reader is told.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import orjson

from bench.errors import StreamproofError
from bench.records import Outcome, RequestRecord

FILE_MODE: Final = 0o644


class Journal:
    """An append-only file of lines. Use as a context manager.

    Args:
        path: created if it is not there.

    Raises:
        StreamproofError: the file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, FILE_MODE)
        except OSError as error:
            raise StreamproofError(
                f"{path} cannot be written: {error.strerror}", remedy="Choose a folder for the report that can be."
            ) from error
        self._length = os.fstat(self._fd).st_size

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def record(self, record: RequestRecord) -> None:
        """Append a record.

        Raises:
            StreamproofError: it could not be written whole; the file is as it was before.
        """
        self.line(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))

    def line(self, line: bytes) -> None:
        """Append one line, its end included.

        Raises:
            StreamproofError: it could not be written whole; the file is as it was before.
        """
        try:
            left = line
            while left:  # a second turn only after a short write, which on a file means that the disk is full
                left = left[os.write(self._fd, left) :]
        except OSError as error:
            os.ftruncate(self._fd, self._length)
            raise self._unwritable(error) from error
        self._length += len(line)

    def sync(self) -> None:
        """Return once everything appended so far is on the disk; for the ends of phases, it may take long.

        Raises:
            StreamproofError: the disk did not take it.
        """
        try:
            os.fsync(self._fd)
        except OSError as error:
            raise self._unwritable(error) from error

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _unwritable(self, error: OSError) -> StreamproofError:
        return StreamproofError(
            f"{self._path} takes no more: {error.strerror}. What it holds so far is whole.",
            remedy="Free space on that disk, or choose another folder for the report, and run again.",
        )


@dataclass(frozen=True, slots=True)
class Journaled:
    """What a journal of records holds.

    Attributes:
        records: in order of writing.
        torn: the last line was cut short and has been left out.
    """

    records: tuple[RequestRecord, ...]
    torn: bool


def read(path: Path) -> Journaled:
    """Read a journal of records back.

    Raises:
        StreamproofError: a line, named by its number, is not a record.
        OSError: the file cannot be read.
    """
    return parse(path.read_bytes(), str(path))


def parse(raw: bytes, name: str) -> Journaled:
    """Read a part of a journal that begins with a whole line.

    Args:
        raw: its bytes.
        name: of the journal, for the error.

    Raises:
        StreamproofError: a line, named by its number in this part, is not a record.
    """
    lines = raw.split(b"\n")
    torn = lines.pop() != b""
    return Journaled(tuple(_record(line, name, number) for number, line in enumerate(lines, start=1)), torn)


def _record(line: bytes, name: str, number: int) -> RequestRecord:
    try:
        fields = orjson.loads(line)
        fields["outcome"] = Outcome(fields["outcome"])
        fields["chunk_s"] = tuple(fields["chunk_s"])
        fields["segments"] = tuple((key, tokens) for key, tokens in fields["segments"])
        return RequestRecord(**fields)
    except (ValueError, TypeError, KeyError) as error:
        raise StreamproofError(
            f"{name}, line {number}: not a request record ({error})",
            remedy="The file was changed after it was written, or written by another version.",
        ) from error
