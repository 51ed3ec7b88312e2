"""By how much a figure differs between two measurements, each of one or more engine starts.

An engine start is what a measurement can be repeated with, so the spread between starts decides how sure a change is.
Two or three starts are too few to draw them again with replacement (two starts have three different draws; Davison &
Hinkley 1997, "Bootstrap Methods and their Application", section 3.8): their spread enters through Student's t, with the
degrees of freedom of Welch 1947, "The generalization of 'Student's' problem when several different population variances
are involved", Biometrika 34, rounded down. Starts that agree by luck are not believed more than the block bootstrap
within them allows (`bench.stats.blocks`): the larger of the two variances counts.

- several starts on both sides: as above.
- several on one side: the other side is taken to spread as much, with the degrees of freedom of the one that is known.
- one on each side: nothing says how much starts differ. The interval is that of the block bootstrap within these two,
  and holds for these two only.

Ratios are estimated as differences of logarithms.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

from bench.stats.blocks import redrawn
from bench.stats.quantiles import CONFIDENCE, Sample, quantile, rank_of
from bench.stats.student import student

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Run = NDArray[np.float64]
    """Latencies of one engine start in order of time: seconds, +infinity for a failure, shape (n,)."""

Basis: TypeAlias = Literal["between starts", "starts of one side", "within these two starts"]

MOST_RUNS: Final = 50
"""More engine starts than this are not proposed to anybody."""


@dataclass(frozen=True, slots=True)
class Change:
    """Second against first.

    Attributes:
        difference, difference_low, difference_high: second minus first, in the unit of the figure.
        ratio, low, high: second over first.
        confidence: of both intervals.
        basis: what the intervals rest on.
        spread: standard deviation of the logarithm from one start to the next, as the interval took it; with one start
            on each side only the part within a start.
    """

    difference: float
    difference_low: float
    difference_high: float
    ratio: float
    low: float
    high: float
    confidence: float
    basis: Basis
    spread: float


def quantile_change(
    first: Sequence[Run], second: Sequence[Run], q: float, *, seed: int, confidence: float = CONFIDENCE
) -> Change | str:
    """The change of a percentile; or why there is none.

    Args:
        first: what is compared against; its starts.
        second: what is compared.
        q: which percentile. The figure of a side is that of its pooled starts.
        seed: decides the draws of the bootstrap.
        confidence: of the intervals.
    """
    sides = (first, second)
    for name, runs in zip(("first", "second"), sides, strict=True):
        if not runs or any(quantile(Sample.of(run), q) is None for run in runs):
            return f"too few requests on the {name} side"
    pooled = [_figure(np.concatenate(runs), q) for runs in sides]
    starts = [[_figure(run, q) for run in runs] for runs in sides]
    drawn = [redrawn(runs, q, seed=seed + number) for number, runs in enumerate(sides)]
    for name, side in zip(("first", "second"), range(2), strict=True):
        if not (
            math.isfinite(pooled[side]) and all(map(math.isfinite, starts[side])) and np.isfinite(drawn[side]).all()
        ):
            return f"it falls among the failures on the {name} side"
        if min(pooled[side], float(drawn[side].min()), *starts[side]) <= 0:
            return f"it is 0 on the {name} side"
    return _change(pooled, starts, drawn, confidence)


def figure_change(first: Sequence[float], second: Sequence[float], *, confidence: float = CONFIDENCE) -> Change | str:
    """The change of a figure that each start has one of (a throughput); or why there is none.

    Args:
        first: above 0, a value for each start. The figure of a side is their mean.
        second: likewise.
        confidence: of the intervals.
    """
    if not first or not second or min(*first, *second) <= 0:
        return "there is none on one side"
    if len(first) == len(second) == 1:
        return "one start on each side"
    sides = [list(first), list(second)]
    return _change([statistics.fmean(side) for side in sides], sides, None, confidence)


def runs_to_decide(change: Change, limit: float) -> int | None:
    """Starts that each side needs in all until the interval leaves `limit` on one side, if nothing else changes.

    It counts with the fewest degrees of freedom that Welch may leave (those of one side).

    Args:
        change: as it stands. With one start on each side the answer is a lower bound: their own spread is not in it.
        limit: a ratio.

    Returns:
        2 or more; None where more than `MOST_RUNS` would be needed.
    """
    distance = abs(math.log(change.ratio) - math.log(limit))
    enough = (
        runs
        for runs in range(2, MOST_RUNS + 1)
        if student(change.confidence, runs - 1) * change.spread * math.sqrt(2 / runs) < distance
    )
    return next(enough, None)


def _figure(values: Run, q: float) -> float:
    return float(np.partition(values, rank_of(len(values), q) - 1)[rank_of(len(values), q) - 1])


def _change(
    figures: Sequence[float],
    starts: Sequence[Sequence[float]],
    drawn: Sequence[NDArray[np.float64]] | None,
    confidence: float,
) -> Change:
    difference, ratio = figures[1] - figures[0], math.log(figures[1] / figures[0])
    counts = [len(side) for side in starts]
    if drawn is not None and max(counts) == 1:
        tails = ((1 - confidence) / 2, (1 + confidence) / 2)
        draws = min(map(len, drawn))
        differences = np.quantile(drawn[1][:draws] - drawn[0][:draws], tails)
        ratios = np.quantile(np.log(drawn[1][:draws]) - np.log(drawn[0][:draws]), tails)
        spread = math.sqrt(sum(float(np.var(np.log(side))) for side in drawn) / 2)
        basis: Basis = "within these two starts"
    else:
        half, _ = _half(starts, drawn, confidence, float)
        differences = np.array((difference - half, difference + half))
        half, spread = _half(starts, drawn, confidence, math.log)
        ratios = np.array((ratio - half, ratio + half))
        basis = "between starts" if min(counts) > 1 else "starts of one side"
    low, high = (float(end) for end in np.exp(ratios))
    return Change(
        difference, float(differences[0]), float(differences[1]), math.exp(ratio), low, high, confidence, basis, spread
    )


def _half(
    starts: Sequence[Sequence[float]],
    drawn: Sequence[NDArray[np.float64]] | None,
    confidence: float,
    scale: Callable[[float], float],
) -> tuple[float, float]:
    """Half the width of the interval, and the standard deviation from one start to the next."""
    counts = [len(side) for side in starts]
    known = [None if len(side) < 2 else statistics.variance([scale(value) for value in side]) for side in starts]
    shared = next(variance for variance in known if variance is not None)
    # The bootstrap redraws all starts of a side together: its variance is that of their pooled figure.
    within = [0.0, 0.0]
    if drawn is not None:
        within = [
            float(np.var([scale(float(value)) for value in side])) * count
            for side, count in zip(drawn, counts, strict=True)
        ]
    variances = [
        max(shared if variance is None else variance, floor) for variance, floor in zip(known, within, strict=True)
    ]
    parts = [variance / count for variance, count in zip(variances, counts, strict=True)]
    total = math.fsum(parts)
    if not total:
        return 0.0, 0.0
    if min(counts) == 1:
        degrees = max(counts) - 1
    else:
        degrees = math.floor(total**2 / sum(part**2 / (count - 1) for part, count in zip(parts, counts, strict=True)))
    return student(confidence, degrees) * math.sqrt(total), math.sqrt(statistics.fmean(variances))
