"""Splits numbers in two on a logarithmic scale, and says whether there are two groups of them at all.

The split is where the variance between the two groups is largest (Otsu 1979, "A threshold selection method from
gray-level histograms"): exactly, over the sorted values instead of a histogram.

There are two groups only if a valley lies between their medians. Of three windows of equal width over a distribution
with one hill, the middle one is never the emptiest, whatever the shape of the hill. So: in the emptiest window between
the medians there are at most `VALLEY` as many values as in each of the windows around them; and there the cut is.

Ashman's D (Ashman, Bird, Zepf 1994), often used for that, is no test of such a split: the halves of one normal
distribution have D = 2.6, those of a uniform one 3.5, and D > 2 is said to mean two.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

OneGroup: TypeAlias = Literal["too few", "no valley", "too alike"]
"""Why there are not two: fewer than `HILL` values make a hill, one hill, or medians closer than `TWICE`."""

HILL: Final = 16
"""Gaps in a window that make a hill: where 16 are expected, `VALLEY` of them or fewer come by chance once in 2,500."""

VALLEY: Final = 0.25
"""The most gaps that there may be in a valley, as a share of those on the lower hill. With `HILL` it splits some 1 % of
samples of a narrow hill with a long tail, the worst case that was found, and fewer of others."""

TWICE: Final = 2.0
"""A long gap takes at least as long as two short ones: below that, two steps in one chunk look like another kind."""

_PLACES: Final = 33
"""Windows that are looked at between two medians: each overlaps the next."""
_AT_ONCE: Final = 1 << 20
"""Splits that are tried in one go: memory for a few columns of so many, whatever the number of gaps."""


@dataclass(frozen=True, slots=True)
class Split:
    """What came of it.

    Attributes:
        cut: in the valley; None where there are not two kinds.
        one: why not.
        lower: gaps of the lower group, whether or not it is a kind; 0 where nothing was split.
        ratio: of the two groups' medians.
    """

    cut: float | None
    one: OneGroup | None
    lower: int = 0
    ratio: float = 1.0


def split(ordered: Floats) -> Split:
    """Splits in two and looks for the valley.

    Args:
        ordered: values above 0 in order, shape (n,).
    """
    if len(ordered) < 2 * HILL:
        return Split(None, "too few")
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
        return Split(None, "too few", lower, ratio)
    if counts.min() > VALLEY * hill:
        return Split(None, "no valley", lower, ratio)
    if ratio < TWICE:
        return Split(None, "too alike", lower, ratio)
    emptiest = places[counts == counts.min()]
    return Split(middle * exp(float(emptiest[len(emptiest) // 2])), None, lower, ratio)


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
