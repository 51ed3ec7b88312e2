"""Opens a report folder that somebody hostile may have made.

Every name is checked before it is opened, every file is opened without following a link and looked at before a byte is
read, and no more is read than the limit of its kind. The folder itself is opened once, so that nobody can put another
one under its name while we read.
"""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from bench.report import folder_files as files
from bench.report.verify_text import printable

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

MEBIBYTE: Final = 1 << 20

LIMITS: Final = {
    files.REPORT: 16 * MEBIBYTE,
    files.RECORDS: 512 * MEBIBYTE,
    files.OBSERVATIONS: 64 * MEBIBYTE,
    files.RECIPE: 1 * MEBIBYTE,
    files.ENVIRONMENT: 4 * MEBIBYTE,
    files.MARKDOWN: 1 * MEBIBYTE,
    files.PAGE: 16 * MEBIBYTE,
    files.ATTESTATION: 1 * MEBIBYTE,
    files.TEST_RESULT: 1 * MEBIBYTE,
    files.MODEL_SIGNATURE: 1 * MEBIBYTE,
    files.SIGNER: 4096,
}
"""Bytes by file name: several times what a million requests over a day need."""
ENGINE_LOG_LIMIT: Final = 512 * MEBIBYTE
"""Bytes. Logs are hashed in pieces and never held in memory."""
FILE_COUNT_LIMIT: Final = 1024
"""Entries in the folder: nine files and a log for every engine start."""
TOTAL_LIMIT: Final = 2048 * MEBIBYTE
"""Bytes of all files together: every kind at its limit, and a gigabyte and a half of logs."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One reason to refuse a report.

    Attributes:
        file: name of the file within the folder; a hostile name is shown escaped.
        reason: what is wrong with it.
        remedy: what to do, where there is something to do.

    File and reason may quote what somebody hostile wrote: they are kept in a form that is safe to print.
    """

    file: str
    reason: str
    remedy: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "file", printable(self.file, 300))
        object.__setattr__(self, "reason", printable(self.reason, 600))


class RefusedError(Exception):
    """The report cannot be trusted; carries everything found so far."""

    def __init__(self, *findings: Finding) -> None:
        super().__init__("; ".join(f"{finding.file}: {finding.reason}" for finding in findings))
        self.findings = findings


class HostileFolder:
    """A report folder, open for reading.

    Args:
        path: the folder. It may itself be reached over a link: that is the reader's choice, not the report's.

    Raises:
        RefusedError: from `__enter__`, when it is not a folder that can be opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._folder = -1

    def __enter__(self) -> Self:
        try:
            self._folder = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            finding = Finding(
                str(self._path),
                f"cannot be opened as a folder: {error.strerror}",
                "Name the folder of a report, a ZIP or tar of it, or an address.",
            )
            raise RefusedError(finding) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._folder)

    def names(self) -> tuple[str, ...]:
        """Names of all files, sorted.

        Raises:
            RefusedError: an entry that no report has, that is no plain file, or that is larger than its kind may be.
        """
        names: list[str] = []
        findings: list[Finding] = []
        total = 0
        with os.scandir(self._folder) as entries:
            for entry in entries:
                if len(names) + len(findings) >= FILE_COUNT_LIMIT:
                    findings.append(Finding(".", f"more than {FILE_COUNT_LIMIT} entries"))
                    break
                status = entry.stat(follow_symlinks=False)
                total += status.st_size
                fault = self._fault(entry.name, status)
                if fault is None:
                    names.append(entry.name)
                else:
                    findings.append(fault)
        if total > TOTAL_LIMIT:
            findings.append(Finding(".", f"the files have more than {TOTAL_LIMIT >> 20:,} MiB together"))
        if findings:
            raise RefusedError(*sorted(findings, key=lambda finding: finding.file))
        return tuple(sorted(names))

    def read(self, name: str) -> bytes:
        """The file's bytes.

        Raises:
            RefusedError: it is missing, no plain file, or too large.
        """
        with os.fdopen(self._open(name), "rb") as file:
            content = file.read(_limit(name) + 1)
        if len(content) > _limit(name):  # it grew while we read
            raise RefusedError(_too_large(name))
        return content

    def sha256(self, name: str) -> str:
        """SHA-256 of the file in hex, read in pieces.

        Raises:
            RefusedError: as for `read`.
        """
        digest = hashlib.sha256()
        left = _limit(name)
        with os.fdopen(self._open(name), "rb") as file:
            while piece := file.read(MEBIBYTE):
                left -= len(piece)
                if left < 0:  # it grew while we read
                    raise RefusedError(_too_large(name))
                digest.update(piece)
        return digest.hexdigest()

    def _open(self, name: str) -> int:
        if not files.is_report_file(name):
            raise RefusedError(no_such_name(name))
        try:
            # Non-blocking, because opening a named pipe would wait for its writer for ever.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(name, flags, dir_fd=self._folder)
        except FileNotFoundError as error:
            raise RefusedError(Finding(name, "is missing")) from error
        except OSError as error:
            raise RefusedError(Finding(name, f"cannot be opened: {error.strerror}")) from error
        fault = self._fault(name, os.fstat(descriptor))
        if fault is not None:
            os.close(descriptor)
            raise RefusedError(fault)
        return descriptor

    @staticmethod
    def _fault(name: str, status: os.stat_result) -> Finding | None:
        if not files.is_report_file(name):
            return no_such_name(name)
        if stat.S_ISLNK(status.st_mode):
            return Finding(name, "is a symbolic link; a report holds plain files only")
        if not stat.S_ISREG(status.st_mode):
            return Finding(name, "is no plain file")
        return too_large(name, status.st_size)


def shown(name: str) -> str:
    """A name from outside, made safe to print: no control character, no end of line, not too long."""
    return ascii(name)[1:-1][:120]


def _limit(name: str) -> int:
    return LIMITS.get(name, ENGINE_LOG_LIMIT)


def no_such_name(name: str) -> Finding:
    """Why a file of this name is refused, which no finished report has."""
    if name == files.RUNNING_RECORDS:
        return Finding(name, "is there: the run is still going on, or was cut off", "After a cut: just finish FOLDER")
    return Finding(shown(name), "no report has a file of this name", "Take it out of the folder if it is yours.")


def too_large(name: str, size: int) -> Finding | None:
    """Why a file of so many bytes is refused; None where it may be as large."""
    return _too_large(name) if size > _limit(name) else None


def _too_large(name: str) -> Finding:
    return Finding(name, f"is larger than {_limit(name) // 1024:,} KiB, the most that a file of its kind may be")
