"""Has the ramp leaked into the window? MSER-5 finds where a series settles.

MSER (White 1997, "An effective truncation heuristic for bias reduction in simulation output", Simulation 69(6)) drops
so many samples from the front that the mean of the rest is known best: it minimizes the squared standard error
sum((z - mean)^2) / (k - d)^2 over the number d of dropped samples, k being their number. MSER-5 does so on means of
five (White, Cobb & Spratt 2000, "A comparison of five steady-state truncation heuristics for simulation", Winter
Simulation Conference). Only the first half is searched: a minimum beyond it says that there is too little after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from bench.stats.quantiles import Sample, quantile, rank_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

BATCH: Final = 5

FEWEST_BATCHES: Final = 20
"""Of 100 samples: the half that must be left after truncation then still has some ten batches to compare."""

WATCHED: Final = (0.5, 0.95)
"""The percentiles that a leaked ramp must not move."""


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


def is_steady(series: NDArray[np.float64]) -> bool | None:
    """Whether the percentiles of a window are those of its load, and not of its beginning.

    The window is what the recipe says and nothing is ever cut from it: this only judges it. MSER-5 finds something to
    drop in nearly every window, if only one slow batch, so its minimum alone proves nothing. What it would drop must
    also decide a figure: a window is not steady when p50 or p95 of the rest lies outside the 95 % interval that it has
    over the whole window. Of windows of independent samples (normal, exponential, lognormal) fewer than 3 in 100 fail;
    of 400 samples whose first twentieth is twice as slow, 9 in 10 do. A slow drift through the whole window is often
    seen too, but is not what this looks for.

    Args:
        series: latencies of the window's successful requests in order of intended send time, shape (n,).

    Returns:
        The verdict; None below 100 values.
    """
    dropped = mser5(series)
    if dropped is None:
        return None
    whole, rest = Sample.of(series), Sample.of(series[dropped:])
    return all(_stays(whole, rest, q) for q in WATCHED)


def _stays(whole: Sample, rest: Sample, q: float) -> bool:
    over_all = quantile(whole, q)
    return over_all is None or over_all.low <= rest.at_rank(rank_of(rest.n, q)) <= over_all.high
