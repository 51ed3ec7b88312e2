"""Gaps between the chunks of replies, told apart: short ones, long ones, and those that are neither.

A gap between two chunks of a streamed reply is one step of the engine, as long as it sends what each step gave. Steps
that also compute somebody's prompt take longer than those that only decode, so that the gaps of a server under load
have two hills. Whether they do is decided by the gaps alone, on a logarithmic scale, so that no unit matters:

1. Gaps of exactly 0 are chunks of one read. They came together and are no step.
2. The longest are rare when they came on fewer than `OCCASIONS` occasions and the next shorter gap is not even half as
   long. A standstill of the whole server is one occasion, however many replies waited through it.
3. The rest is split where the variance between the two groups is largest (Otsu 1979, "A threshold selection method from
   gray-level histograms"): exactly, over the sorted values instead of a histogram.
4. A lower group with less than `NO_TIME` of the time and no valley above it hides nothing, and only draws the split to
   where no time is: 3. is repeated without it. So it is, valley or not, where `INSTANT` of its gaps go into one of the
   others, as where a server sends every token of a step by itself: these chunks came together, too, and in the end
   whatever is as much shorter than the median of the short kind.
5. There are two kinds only if a valley lies between the medians of the groups. Of three windows of equal width over a
   distribution with one hill, the middle one is never the emptiest, whatever the shape of the hill. So: in the emptiest
   window between the medians there are at most `VALLEY` as many gaps as in each of the windows around them.

Ashman's D (Ashman, Bird, Zepf 1994), often used here, is no test of a split: the halves of one normal distribution have
D = 2.6, those of a uniform one 3.5, and D > 2 is said to mean two.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Truths = NDArray[np.bool_]

OneKind: TypeAlias = Literal["too few", "no valley", "too alike", "too seldom"]
"""Why there are not two kinds: fewer than `HILL` gaps make a hill, one hill, medians closer than `TWICE`, or long gaps
on fewer than `OCCASIONS` occasions."""

OCCASIONS: Final = 10
"""Moments, apart from each other, that a kind of gap must have come at: of fewer no percentile says anything."""

HILL: Final = 16
"""Gaps in a window that make a hill: where 16 are expected, `VALLEY` of them or fewer come by chance once in 2,500."""

VALLEY: Final = 0.25
"""The most gaps that there may be in a valley, as a share of those on the lower hill. With `HILL` it splits some 1 % of
samples of a narrow hill with a long tail, the worst case that was found, and fewer of others."""

TWICE: Final = 2.0
"""A long gap takes at least as long as two short ones: below that, two steps in one chunk look like another kind."""

NO_TIME: Final = 0.01
"""A group with a smaller share of the time is not where the time goes, however many gaps it has."""

INSTANT: Final = 100.0
"""Chunks came together if so many of their gaps, and more, go into one step: no step is as much faster than others."""

_PLACES: Final = 33
"""Windows that are looked at between two medians: each overlaps the next."""
_AT_ONCE: Final = 1 << 20
"""Splits that are tried in one go: memory for a few columns of so many, whatever the number of gaps."""


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
    first = together = int(np.searchsorted(ordered, 0.0, side="right"))
    last = _before_rare(ordered[first:], gaps, begins) + first
    rare_s = float(ordered[last]) if last < len(ordered) else inf
    while True:
        found = _split(ordered[first:last])
        instant = found.ratio >= INSTANT
        if not _no_time(ordered[first:last], found.lower) or (found.cut_s is not None and not instant):
            break
        first += found.lower
        together = first if instant else together
    cut_s, one = found.cut_s, found.one
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


def otsu(ordered: Floats) -> int:
    """The size of the lower of two groups between which the variance is largest.

    Args:
        ordered: values in order, at least two, shape (n,).

    Returns:
        1 to n - 1.
    """
    n, sums = len(ordered), np.cumsum(ordered)
    best, size = -1.0, 1
    for start in range(1, n, _AT_ONCE):
        lower = np.arange(start, min(start + _AT_ONCE, n), dtype=np.float64)
        below = sums[start - 1 : start - 1 + len(lower)]
        between = lower * (n - lower) * ((sums[-1] - below) / (n - lower) - below / lower) ** 2
        place = int(np.argmax(between))
        if between[place] > best:
            best, size = float(between[place]), start + place
    return size


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


@dataclass(frozen=True, slots=True)
class _Split:
    """What came of splitting some gaps.

    Attributes:
        cut_s: in the valley; None where there are not two kinds.
        one: why not.
        lower: gaps of the lower group, whether or not it is a kind; 0 where nothing was split.
        ratio: of the two groups' medians.
    """

    cut_s: float | None
    one: OneKind | None
    lower: int = 0
    ratio: float = 1.0


def _split(ordered: Floats) -> _Split:
    """Splits in two and looks for the valley.

    Args:
        ordered: gaps above 0 in order, shape (n,).
    """
    if len(ordered) < 2 * HILL:
        return _Split(None, "too few")
    middle = float(np.median(ordered))
    logs = np.log(ordered / middle)  # near 0, whatever the unit
    lower = otsu(logs)
    low, high = float(np.median(logs[:lower])), float(np.median(logs[lower:]))
    width, ratio = (high - low) / 3, exp(high - low)

    def around(places: Floats) -> NDArray[np.intp]:
        ends = np.searchsorted(logs, places + width / 2, side="right")
        return np.asarray(ends - np.searchsorted(logs, places - width / 2))

    hill = int(around(np.array([low, high])).min())
    places = np.linspace(low + width, high - width, _PLACES)
    counts = around(places)
    if hill < HILL:
        return _Split(None, "too few", lower, ratio)
    if counts.min() > VALLEY * hill:
        return _Split(None, "no valley", lower, ratio)
    if ratio < TWICE:
        return _Split(None, "too alike", lower, ratio)
    emptiest = places[counts == counts.min()]
    return _Split(middle * exp(float(emptiest[len(emptiest) // 2])), None, lower, ratio)
