"""What an archive of a report may hold: the report's files, in one folder or in none, each once, and nothing else.

A member's name is never used as a path. It is taken apart here, and what is written is one of the few names that a
report's files have.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from typing import Final, NoReturn

from bench.report import folder_files as files
from bench.report.verify_files import (
    FILE_COUNT_LIMIT,
    TOTAL_LIMIT,
    Finding,
    RefusedError,
    no_such_name,
    shown,
    too_large,
)

MEMBERS_LIMIT: Final = FILE_COUNT_LIMIT + 1
"""Members of an archive: the most files that a folder has, and their folder."""

_FOLDER: Final = re.compile(r"(?!\.)[A-Za-z0-9._+-]{1,200}")


def refuse(name: str, reason: str, remedy: str = "") -> NoReturn:
    """Refuses an archive for one of its members.

    Raises:
        RefusedError: always.
    """
    raise RefusedError(Finding(shown(name) or "(no name)", reason, remedy))


@dataclass(slots=True)
class Members:
    """The members seen so far.

    Attributes:
        folder: that the files lie in; None before the first file, "" where they lie in none.
        files: claimed size in bytes by name.
    """

    folder: str | None = None
    files: dict[str, int] = field(default_factory=dict)
    _count: int = 0
    _named: set[str] = field(default_factory=set)

    @property
    def claimed(self) -> int:
        """Bytes of all files together."""
        return sum(self.files.values())

    def add_folder(self, name: str) -> None:
        """Takes a member that is a folder.

        Args:
            name: as it stands in the archive.

        Raises:
            RefusedError: not the one folder that the files lie in.
        """
        self._count_one(name)
        bare = name.removesuffix("/").removeprefix("./")
        if bare in {"", "."}:
            return
        if "/" in _safe(bare):
            refuse(name, "is a folder within a folder; the files of a report lie side by side")
        self._settle(name, bare)

    def add_file(self, name: str, size: int) -> str:
        """Takes a member that is a plain file.

        Args:
            name: as it stands in the archive.
            size: in bytes, as the archive claims.

        Returns:
            The name to write it under.

        Raises:
            RefusedError: no name of a report's file, a name that was there before, or too much.
        """
        self._count_one(name)
        folder, _, file = _safe(name).removeprefix("./").rpartition("/")
        if "/" in folder:
            refuse(name, "lies deeper than one folder; the files of a report lie side by side")
        if not files.is_report_file(file):
            _refuse_name(name, file)
        self._settle(name, folder)
        if file in self.files:
            refuse(name, "is in the archive twice")
        fault = too_large(file, size)
        if fault is not None:
            raise RefusedError(fault)
        self.files[file] = size
        if self.claimed > TOTAL_LIMIT:
            refuse(name, f"and those before it unpack to more than {TOTAL_LIMIT >> 20:,} MiB, the most of a report")
        return file

    def _count_one(self, name: str) -> None:
        self._count += 1
        if self._count > MEMBERS_LIMIT:
            refuse(name, f"is one of more than {MEMBERS_LIMIT:,} members; no report has as many")

    def _settle(self, name: str, folder: str) -> None:
        if folder and not _FOLDER.fullmatch(folder):
            refuse(name, "lies in a folder whose name no report has")
        if self.folder is None:
            self.folder = folder
        elif self.folder != folder:
            where = f"the folder {shown(self.folder)}" if self.folder else "no folder"
            refuse(name, f"lies elsewhere than the members before it, which are in {where}", _ONE_REPORT)


_ONE_REPORT: Final = "An archive holds the files of one report. Pack each folder by itself."


def _safe(name: str) -> str:
    """The name, when it leads nowhere on any system.

    Raises:
        RefusedError: it leaves the folder, or two programs could read it in two ways.
    """
    if "\0" in name:
        refuse(name, "has a NUL character in its name: programs would read two names in it")
    if "\\" in name:
        refuse(name, "has a backslash in its name: on some systems that is a path")
    if name.startswith("/") or re.match(r"[A-Za-z]:", name):
        refuse(name, "is an absolute path, which leaves the folder")
    if ".." in name.split("/"):
        refuse(name, 'leaves the folder by ".."')
    return name


def _refuse_name(name: str, file: str) -> NoReturn:
    """Refuses a name that no report's file has; where it looks like one that there is, that is said."""
    plain = unicodedata.normalize("NFKC", file).casefold().rstrip(". ")
    if plain in files.NAMES or files.ENGINE_LOG.fullmatch(plain):
        refuse(name, f"only looks like {plain}: some systems would take the two for one file")
    raise RefusedError(no_such_name(name))
