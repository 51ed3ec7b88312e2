"""Gaps between the chunks of replies, told apart: short ones, long ones, and those that are neither.

A gap between two chunks of a streamed reply is one step of the engine, as long as it sends what each step gave. Steps
that also compute somebody's prompt take longer than those that only decode, so that the gaps of a server under load
have two hills. Whether they do is decided by the gaps alone, on a logarithmic scale, so that no unit matters:

1. Gaps of 0, as far as a float can tell beside the longest, are chunks of one read. They came together and are no step.
2. The longest are rare when they came on fewer than `OCCASIONS` occasions and the next shorter gap is not even half as
   long. A standstill of the whole server is one occasion, however many replies waited through it.
3. The rest is split in two, where there are two groups: `bench.explain.steps.split`.
4. A lower group with less than `NO_TIME` of the time and no valley above it hides nothing, and only draws the split to
   where no time is: 3. is repeated without it. So it is, valley or not, where `INSTANT` of its gaps go into one of the
   others, as where a server sends every token of a step by itself: these chunks came together, too, and in the end
   whatever is as much shorter than the median of the short kind.
5. Long gaps on fewer than `OCCASIONS` occasions are no kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

from bench.explain.steps.split import TWICE, OneGroup, split

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Truths = NDArray[np.bool_]

OneKind: TypeAlias = OneGroup | Literal["too seldom"]
"""Why there are not two kinds: as for `bench.explain.steps.split`, or long gaps on fewer than `OCCASIONS` occasions."""

OCCASIONS: Final = 10
"""Moments, apart from each other, that a kind of gap must have come at: of fewer no percentile says anything."""

NO_TIME: Final = 0.01
"""A group with a smaller share of the time is not where the time goes, however many gaps it has."""

INSTANT: Final = 100.0
"""Chunks came together if so many of their gaps, and more, go into one step: no step is as much faster than others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kinds:
    """Where one kind of gap ends and the next begins, in seconds.

    Attributes:
        together_s: gaps up to it are between chunks that came together.
        cut_s: longer gaps are long, the others short; None where there are not two kinds.
        rare_s: gaps of so much and more are rare; infinity where there are none.
        one: why there are not two kinds; None where there are.
    """

    together_s: float
    cut_s: float | None
    rare_s: float
    one: OneKind | None

    def together(self, gaps: Floats) -> Truths:
        """Which gaps are between chunks that came together; shape (n,), as below."""
        return np.asarray(gaps <= self.together_s)

    def short(self, gaps: Floats) -> Truths:
        """Which are short; all that are neither together nor rare where there are not two kinds."""
        ends = inf if self.cut_s is None else self.cut_s
        return np.asarray((gaps > self.together_s) & (gaps <= ends) & (gaps < self.rare_s))

    def long(self, gaps: Floats) -> Truths:
        """Which are long."""
        begins = inf if self.cut_s is None else self.cut_s
        return np.asarray((gaps > begins) & (gaps < self.rare_s))

    def rare(self, gaps: Floats) -> Truths:
        """Which are rare."""
        return np.asarray(gaps >= self.rare_s)


def kinds_of(gaps: Floats, begins: Floats) -> Kinds:
    """Tells the gaps of one operating point apart.

    Args:
        gaps: seconds between two chunks of a reply, of all replies, none below 0, shape (n,).
        begins: when each began, seconds, shape (n,).
    """
    ordered = np.sort(gaps)
    nothing = float(ordered[-1] * np.finfo(np.float64).eps) if len(ordered) else 0.0
    first = together = int(np.searchsorted(ordered, nothing, side="right"))
    last = _before_rare(ordered[first:], gaps, begins) + first
    rare_s = float(ordered[last]) if last < len(ordered) else inf
    while True:
        found = split(ordered[first:last])
        instant = found.ratio >= INSTANT
        if not _no_time(ordered[first:last], found.lower) or (found.cut is not None and not instant):
            break
        first += found.lower
        together = first if instant else together
    cut_s: float | None = found.cut
    one: OneKind | None = found.one
    if cut_s is not None and occasions((gaps > cut_s) & (gaps < rare_s), gaps, begins) < OCCASIONS:
        cut_s, one = None, "too seldom"
    short = ordered[together : last if cut_s is None else int(np.searchsorted(ordered, cut_s, side="right"))]
    if len(short):
        together += int(np.searchsorted(short, np.median(short) / INSTANT))
    return Kinds(
        together_s=float(ordered[together - 1]) if together else 0.0,
        cut_s=cut_s,
        rare_s=rare_s,
        one=one,
    )


def occasions(which: Truths, gaps: Floats, begins: Floats, *, enough: int = OCCASIONS) -> int:
    """On how many occasions these gaps came: the most of them that do not overlap, counted no further than `enough`.

    Gaps of several replies at one time are one occasion. Taking the one that ends first, again and again, finds the
    most (Kleinberg, Tardos 2005, "Algorithm Design", 4.1).

    Args:
        which: gaps that are asked about, shape (n,).
        gaps: all, shape (n,).
        begins: when each began, shape (n,).
        enough: where to stop.
    """
    begin, end = begins[which], begins[which] + gaps[which]
    found = 0
    while found < enough and len(end):
        found += 1
        later = begin >= end.min()
        begin, end = begin[later], end[later]
    return found


def _before_rare(ordered: Floats, gaps: Floats, begins: Floats) -> int:
    """How many of the gaps are not rare.

    Args:
        ordered: gaps above 0 in order, shape (m,).
        gaps: all, shape (n,).
        begins: when each began, shape (n,).
    """
    for place in (np.flatnonzero(ordered[1:] > TWICE * ordered[:-1]) + 1).tolist():
        if occasions(gaps >= ordered[place], gaps, begins) < OCCASIONS:
            return int(place)
    return len(ordered)


def _no_time(ordered: Floats, lower: int) -> bool:
    """Whether the shortest `lower` of the gaps are some, and hold none of the time to speak of."""
    return lower > 0 and bool(ordered[:lower].sum() < NO_TIME * ordered.sum())
