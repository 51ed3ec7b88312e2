"""Progress of an audit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an audit is.

    Attributes:
        done_bytes: read of checkpoint and source so far.
        total_bytes: to be read.
        doing: tensor, or step, that was finished last.
    """

    done_bytes: int
    total_bytes: int
    doing: str
