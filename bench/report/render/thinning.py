"""Fewer points for a picture that stays true: what is drawn is said under it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.report.render.charts import Place


def evenly(length: int, most: int) -> list[int]:
    """Indices of at most `most` (2 or more) of `length` things, evenly spaced, the first and the last among them."""
    if length <= most:
        return list(range(length))
    return [round(index * (length - 1) / (most - 1)) for index in range(most)]


def of_each_kind(kinds: Sequence[str], most: int) -> list[int]:
    """Indices of at most `most` things of each kind, evenly spaced within it, so that a rare kind is never lost."""
    places: dict[str, list[int]] = {}
    for index, kind in enumerate(kinds):
        places.setdefault(kind, []).append(index)
    return sorted(same[at] for same in places.values() for at in evenly(len(same), most))


def extremes(places: Sequence[Place], slots: int) -> list[Place]:
    """At most four places of each of `slots` equal pieces of time: the first, the last, the lowest and the highest.

    No peak and no dip is lost, and where a piece is a pixel wide the line covers the same pixels as one through all
    places: M4 of Jugel et al. 2014, "M4: a visualization-oriented time series data aggregation", PVLDB 7(10).

    Args:
        places: in order of x.
        slots: pieces, 1 or more.
    """
    if len(places) <= 4 * slots:
        return list(places)
    low, high = places[0][0], places[-1][0]
    width = (high - low) / slots or 1.0
    pieces: dict[int, list[int]] = {}
    for index, (x, _) in enumerate(places):
        pieces.setdefault(min(slots - 1, int((x - low) / width)), []).append(index)
    kept: set[int] = set()
    for inside in pieces.values():
        least, most = min(inside, key=lambda at: places[at][1]), max(inside, key=lambda at: places[at][1])
        kept |= {inside[0], inside[-1], least, most}
    return [places[index] for index in sorted(kept)]
