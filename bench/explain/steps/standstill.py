"""The longest time in which a server that had requests gave nobody anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standstill:
    """No chunk of any request, while some were in flight.

    Attributes:
        seconds: how long.
        start_s: when it began, seconds since the run's epoch.
        in_flight: requests that were in flight in the middle of it.
    """

    seconds: float
    start_s: float
    in_flight: int


def longest(sent: Floats, done: Floats, chunks: Floats, *, since_s: float, until_s: float) -> Standstill | None:
    """The longest standstill that began in [since_s, until_s); None where no request was in flight then.

    Args:
        sent: when each request was sent, shape (n,).
        done: when it ended, shape (n,).
        chunks: all arrivals, in any order, shape (m,).
        since_s: the window's start.
        until_s: its end.
    """
    if not len(sent):
        return None
    order = np.argsort(sent)
    begun, ended = sent[order], np.maximum.accumulate(done[order])
    fresh = np.concatenate(([True], begun[1:] > ended[:-1]))  # nothing was in flight when these were sent
    starts, ends = begun[fresh], ended[np.concatenate((fresh[1:], [True]))]
    # A standstill begins with a chunk or with the first request in flight, and ends with a chunk or with the last one.
    marks = np.sort(np.concatenate((chunks, starts, ends)))
    lengths, middles = np.diff(marks), marks[:-1] + np.diff(marks) / 2
    period = np.searchsorted(starts, middles, side="right") - 1
    counted = (marks[:-1] >= since_s) & (marks[:-1] < until_s) & (period >= 0) & (middles < ends[period])
    if not counted.any():
        return None
    place = int(np.argmax(np.where(counted, lengths, -1.0)))
    middle = middles[place]
    return Standstill(
        seconds=float(lengths[place]),
        start_s=float(marks[place]),
        in_flight=int((begun <= middle).sum() - (done <= middle).sum()),
    )
