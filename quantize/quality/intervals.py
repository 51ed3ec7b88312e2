"""Intervals for figures of two models on the same texts: whole texts are drawn again, both models' together.

Tokens of one call depend on each other, so a call is a block and blocks are drawn with replacement, as in
`bench.stats.bootstrap` (Davison & Hinkley 1997, section 3.8). A drawn block brings both models' tokens with it: the two
stay paired, and what makes a text hard for both cancels. The interval is that of the percentiles of the drawn figures
(Efron & Tibshirani 1993, chapter 13).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from bench.stats.bootstrap import FEWEST_CLUSTERS, REPLICATES
from bench.stats.quantiles import CONFIDENCE
from quantize.quality.served import Interval

Figure: TypeAlias = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""From sums over blocks, shape (..., columns), to the figure, shape (...)."""


def block_interval(
    sums: NDArray[np.float64], figure: Figure, *, seed: int, confidence: float = CONFIDENCE
) -> Interval | None:
    """A figure of sums, with its interval.

    Args:
        sums: of each block, shape (blocks, columns): token counts, sums of logarithms, ... .
        figure: from the columns' totals to the figure.
        seed: decides the draws.
        confidence: of the interval.

    Returns:
        None where the figure does not exist (nothing to divide by). Without an interval where there are fewer than ten
        blocks, or where it does not exist in some of the draws.
    """
    blocks = len(sums)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(figure(sums.sum(axis=0)))
        if not math.isfinite(value):
            return None
        nothing = Interval(value=value, low=None, high=None, confidence=confidence, blocks=blocks)
        if blocks < FEWEST_CLUSTERS:
            return nothing
        times = np.random.default_rng(seed).multinomial(blocks, np.full(blocks, 1 / blocks), size=REPLICATES)
        drawn = np.sort(figure(times.astype(np.float64) @ sums))
    tail = math.floor((1 - confidence) / 2 * REPLICATES)
    low, high = float(drawn[tail]), float(drawn[-1 - tail])
    if np.isnan(drawn).any() or not (math.isfinite(low) and math.isfinite(high)):
        return nothing
    return Interval(value=value, low=low, high=high, confidence=confidence, blocks=blocks)


def ratio_of_means(numerator: int, denominator: int) -> Figure:
    """One column's total over another's."""

    def figure(totals: NDArray[np.float64]) -> NDArray[np.float64]:
        return totals[..., numerator] / totals[..., denominator]

    return figure
