"""Which commit an image is of: the last one that changed anything that decides it."""

from __future__ import annotations

import datetime as dt
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.errors import StreamproofError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Revision:
    """A commit, and what is not in it.

    Attributes:
        commit: 40 hex digits.
        time: of the commit, seconds since 1970: the image's SOURCE_DATE_EPOCH.
        changed: deciding files that are changed or new and not committed.
    """

    commit: str
    time: int
    changed: tuple[str, ...]

    @property
    def label(self) -> str:
        """The commit, with "-dirty" when what was built is not what is committed."""
        return f"{self.commit}-dirty" if self.changed else self.commit

    @property
    def created(self) -> str:
        """The time as RFC 3339 wants it: "2026-11-30T03:30:00Z"."""
        return dt.datetime.fromtimestamp(self.time, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def revision_of(paths: Sequence[str], repository: Path) -> Revision:
    """The revision of some files.

    Not that of the checkout: an image does not change when a commit changes something else. In a shallow clone the
    oldest commit that is there stands for all before it.

    Args:
        paths: relative to the repository.
        repository: the checkout.

    Raises:
        StreamproofError: this is no git checkout, git is missing, or none of the files was ever committed.
    """
    told = git(repository, "log", "-1", "--format=%H %ct", "--", *paths).split()
    if not told:
        raise StreamproofError(
            f"nothing that the image is made from is committed in {repository}",
            remedy="Commit it: an image bears the time and the name of a commit.",
        )
    status = git(repository, "status", "--porcelain", "-z", "--untracked-files=all", "--", *paths)
    changed = tuple(sorted(entry[3:] for entry in status.split("\0") if len(entry) > 3))
    return Revision(commit=told[0], time=int(told[1]), changed=changed)


def tracked_files(paths: Sequence[str], repository: Path) -> list[str]:
    """Every file below some paths that git knows or would add, as it lies there now; sorted.

    Raises:
        StreamproofError: this is no git checkout, or git is missing.
    """
    told = git(repository, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *paths)
    return sorted({path for path in told.split("\0") if path and (repository / path).is_file()})


def git(repository: Path, *arguments: str) -> str:
    """What git says.

    Raises:
        StreamproofError: git is missing, or failed.
    """
    try:
        answer = subprocess.run(  # noqa: S603  git with our own arguments
            ["git", "-C", str(repository), *arguments],  # noqa: S607  whichever git the user has
            check=False,
            capture_output=True,
            text=True,
            errors="surrogateescape",
        )
    except FileNotFoundError as error:
        raise StreamproofError("git is not there.", remedy="Install it: an image is made from a commit.") from error
    if answer.returncode:
        raise StreamproofError(
            f"git {arguments[0]} failed in {repository}: {answer.stderr.strip()[:300]}",
            remedy="Images are built from a git checkout of streamproof, at a commit.",
        )
    return answer.stdout
