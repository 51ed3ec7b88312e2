"""Has the ramp leaked into the window? MSER-5 finds where a series settles.

MSER (White 1997, "An effective truncation heuristic for bias reduction in simulation output", Simulation 69(6)) drops
so many samples from the front that the mean of the rest is known best: it minimizes the squared standard error
sum((z - mean)^2) / (k - d)^2 over the number d of dropped samples, k being their number. MSER-5 does so on means of
five (White, Cobb & Spratt 2000, "A comparison of five steady-state truncation heuristics for simulation", Winter
Simulation Conference). Only the first half is searched: a minimum beyond it says that there is too little after it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from bench.stats.clustered import Counts, design_effect
from bench.stats.quantiles import Sample, interval_ranks, rank_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

BATCH: Final = 5

FEWEST_BATCHES: Final = 20
"""Of 100 samples: the half that must be left after truncation then still has some ten batches to compare."""

WATCHED: Final = (0.5, 0.95)
"""The percentiles that a leaked ramp must not move."""

BEGINNING: Final = 0.25
"""Of a window: the ramp before it is over when it begins, so what leaks into it is short against it."""

CONFIDENCE: Final = 0.99
"""Of the interval that they must stay in. A false alarm makes a whole measurement invalid, so it has to be rare."""


def mser5(series: NDArray[np.float64]) -> int | None:
    """Where the steady part begins, by MSER-5.

    Args:
        series: finite values in order of time, shape (n,).

    Returns:
        How many values to drop from the front, a multiple of five and at most half of them; None below 100 values.
    """
    batches = len(series) // BATCH
    if batches < FEWEST_BATCHES:
        return None
    means = series[: batches * BATCH].reshape(batches, BATCH).mean(axis=1)
    # Around the median, so that the sums of squares lose no digits (and a constant tail has exactly none).
    centered = means - np.median(means)
    left = np.arange(batches, batches - batches // 2 - 1, -1)
    sums = np.cumsum(centered[::-1])[::-1][: len(left)]
    squares = np.cumsum(centered[::-1] ** 2)[::-1][: len(left)]
    error = np.maximum(squares - sums**2 / left, 0) / left.astype(np.float64) ** 2
    return int(np.argmin(error)) * BATCH


def is_steady(runs: Sequence[NDArray[np.float64]]) -> bool | None:
    """Whether the percentiles of a point are those of its load, and not of the beginnings of its windows.

    A window is what the recipe says and nothing is ever cut from it: this only judges. MSER-5 finds something to drop
    in nearly every window, if only one slow batch, so its minimum alone proves nothing. What it would drop must also
    decide a figure: a point is not steady when p50 or p95 of the rest lies outside the 99 % interval that it has with
    all samples. Requests that are open together are slow together, so the interval is that of as many independent
    samples as those behind the cut are worth (`bench.stats.clustered`; with the beginning in it, a ramp would excuse
    itself). Of points without a ramp 1 in 100 fails where samples are independent (normal, exponential, lognormal; 100
    and more), 1 in 40 where each has half of the one before, and 1 in 16 where it has nine tenths (1 in 5 if they were
    taken for independent). Of points whose first tenth is twice as slow 4 in 5 fail at 200 independent samples, and
    half of those whose first twentieth is, at 400. A slow drift
    through the whole window is not what this looks for.

    Args:
        runs: per run, the latencies of the window's successful requests in order of intended send time.

    Returns:
        The verdict; None without runs, where one has fewer than 100 values, or where a figure moves but the minimum
        lies beyond the first quarter: what is so long is no beginning (a disturbance later on, a drift, a load that
        happened to be denser for half of the window), and MSER's own advice is to measure longer.
    """
    cuts = [mser5(series) for series in runs]
    whole = Sample.of(np.concatenate(runs)) if runs else Sample(np.empty(0), 0)
    rest = [series[cut:] for series, cut in zip(runs, cuts, strict=True) if cut is not None]
    if not runs or len(rest) < len(runs):
        return None
    if all(_stays(whole, rest, q) for q in WATCHED):
        return True
    return (
        None
        if any(cut is not None and cut > BEGINNING * len(series) for series, cut in zip(runs, cuts, strict=True))
        else False
    )


def _stays(whole: Sample, rest: Sequence[NDArray[np.float64]], q: float) -> bool:
    """Whether the q-quantile of the rest lies within the interval of the whole."""
    steady = Sample.of(np.concatenate(rest))
    value = steady.at_rank(rank_of(steady.n, q))
    worth = max(1.0, design_effect([Counts(tuple(series > value for series in rest))]))
    ranks = interval_ranks(int(whole.n / worth), q, CONFIDENCE)
    if ranks is None:  # too few independent samples to say where it is
        return True
    low, high = max(1, math.floor(ranks[0] * worth)), min(whole.n, math.ceil(ranks[1] * worth))
    return whole.at_rank(low) <= value <= whole.at_rank(high)
