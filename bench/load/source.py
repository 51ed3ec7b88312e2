"""Where the load models get their turns from; `bench.workload` implements it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from bench.workload.turn import Turn


class TurnSource(Protocol):
    """Conversations of one operating point of one run.

    The same source gives the same turns again; another point or run has another source with other texts. Calls come
    from one thread at a time, not always the same one.
    """

    def primes(self) -> Sequence[Turn]:
        """Turns that fill the prefix cache before the ramp, each agent's prefix in some; none of them is sent again."""
        ...

    def calls(self, stream: int) -> Iterator[Sequence[Turn]]:
        """The conversations of one stream, one after the other, without end. Each is its turns in order."""
        ...
