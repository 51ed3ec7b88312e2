"""Errors that reach the user: what was wrong, where, and what to do; and the exit code a script sees."""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar


class Exit(IntEnum):
    """Exit codes of every command."""

    OK = 0
    """Done; every comparable claim held."""
    FAILURE = 1
    """The work could not be done (no such hardware, engine died, disk full, ...)."""
    USAGE = 2
    """The command line, a recipe or an override is wrong."""
    CLAIM_FAILED = 3
    """A valid measurement in which a comparable claim did not hold."""
    INVALID = 4
    """Measured, but the measurement breaks one of its own rules; its figures prove nothing."""
    INTERRUPTED = 130
    """Stopped by Ctrl-C or SIGTERM; what was recorded is kept in a partial report."""


class StreamproofError(Exception):
    """An error with a remedy.

    Args:
        message: what was wrong and where.
        remedy: what to do about it; one or more sentences, may be empty only where there is nothing to do.
    """

    exit_code: ClassVar[Exit] = Exit.FAILURE

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}\n  {self.remedy}" if self.remedy else self.message


class UsageError(StreamproofError):
    """The command line, a recipe or an override is wrong."""

    exit_code = Exit.USAGE
