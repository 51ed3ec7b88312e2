"""How far a percentile of one run may be off by chance, when neighbouring requests are not independent.

Requests that are open together share a queue, so their latencies rise and fall together. Whole stretches of time are
drawn with replacement instead of single requests: the circular block bootstrap (Politis & Romano 1992, "A circular
block-resampling procedure for stationary data", in LePage & Billard, "Exploring the Limits of Bootstrap"; Davison &
Hinkley 1997, "Bootstrap Methods and their Application", section 8.2.3). A stretch has the order of n^(1/3) requests
that is best for a variance (Hall, Horowitz & Jing 1995, "On blocking rules for the bootstrap with dependent data",
Biometrika 82), times the requests that are worth one independent one (`bench.stats.clustered`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from bench.stats.clustered import Counts, design_effect
from bench.stats.quantiles import rank_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

REPLICATES: Final = 1000
"""Puts 25 drawn percentiles beyond each end of a 95 % interval; a standard deviation is then known to some 2 %."""

FEWEST_REPLICATES: Final = 200
"""Of samples so large that their intervals are narrow anyway: a standard deviation is then known to some 5 %."""

WORK: Final = 100_000_000
"""Requests that are drawn in all: a few seconds."""

FEWEST_BLOCKS: Final = 10
"""With fewer stretches than this the draws differ too little: longer ones are shortened."""


def block_length(values: NDArray[np.float64], q: float) -> int:
    """Requests of a stretch.

    Args:
        values: seconds in order of time, +infinity for a failure, shape (n,), one or more.
        q: which percentile.
    """
    n = len(values)
    over = values > np.sort(values)[rank_of(n, q) - 1]
    worth = design_effect([Counts.of(over)])
    return max(1, min(math.ceil(worth * math.cbrt(n)), n // FEWEST_BLOCKS))


def redrawn(runs: Sequence[NDArray[np.float64]], q: float, *, seed: int) -> NDArray[np.float64]:
    """The pooled percentile of runs whose stretches were drawn again.

    The runs themselves stay: this is the chance within these engine starts, and says nothing about other ones.

    Args:
        runs: of each, seconds in order of time, +infinity for a failure; one run or more, each with a value or more.
        q: which percentile.
        seed: decides the draws.

    Returns:
        Shape (`REPLICATES`,), or fewer for very large samples.
    """
    rng = np.random.default_rng(seed)
    order = np.argsort(np.concatenate(runs), kind="stable")
    ordered = np.concatenate(runs)[order]
    rank = rank_of(len(ordered), q)
    lengths = [block_length(run, q) for run in runs]
    figures = np.empty(max(FEWEST_REPLICATES, min(REPLICATES, WORK // len(ordered))))
    for replicate in range(len(figures)):
        drawn = [_times_drawn(len(run), length, rng) for run, length in zip(runs, lengths, strict=True)]
        upto = np.cumsum(np.concatenate(drawn)[order])
        figures[replicate] = ordered[np.searchsorted(upto, rank)]
    return figures


def _times_drawn(n: int, length: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """How often each of n requests is drawn, when stretches of `length` are; the last stretch is cut, so n in all."""
    starts = rng.integers(n, size=math.ceil(n / length))
    lengths = np.full(len(starts), length)
    lengths[-1] = n - length * (len(starts) - 1)
    # +1 where a stretch begins, -1 past its end, on two laps of the circle: the running sum says how many cover it.
    steps = np.bincount(starts, minlength=2 * n + 1) - np.bincount(starts + lengths, minlength=2 * n + 1)
    laps = np.cumsum(steps[: 2 * n])
    return np.asarray(laps[:n] + laps[n:], dtype=np.int64)
