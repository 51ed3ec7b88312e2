"""Tails of the binomial distribution: all that distribution-free statements about a quantile rest on.

How many of n samples lie under the true q-quantile is Binomial(n, q), whatever the distribution of the samples. So one
function, the largest count with a small enough tail, gives confidence intervals (`bench.stats.quantiles`) and
certificates (`bench.stats.certificate`) alike.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

import numpy as np

SMALLEST_TAIL: Final = 1e-12
"""Below this the sums here would be about rounding. No confidence level in use comes near."""


@lru_cache(maxsize=4096)
def largest_count(n: int, p: float, tail: float) -> int | None:
    """The largest m with P(Binomial(n, p) <= m) <= tail.

    The mass function comes from its exact ratio P(k) / P(k - 1) = (n - k + 1) / k * p / (1 - p), summed in logarithms
    over the 12 standard deviations around the mode that carry all but 1e-30 of the mass, and is normalized by its own
    sum: O(sqrt(n)) work, and no factorial of a large number.

    Args:
        n: trials.
        p: chance of success, in (0, 1).
        tail: in [1e-12, 1).

    Returns:
        m in [0, n), or None where even m = 0 has a larger tail.

    Raises:
        ValueError: an argument outside its range.
    """
    if n < 0 or not 0 < p < 1 or not SMALLEST_TAIL <= tail < 1:
        raise ValueError(f"largest_count needs n >= 0, 0 < p < 1 and {SMALLEST_TAIL} <= tail < 1: {n}, {p}, {tail}")
    mode = min(n, int((n + 1) * p))
    # With few expected successes the upper tail is Poisson's, longer than the normal one: 60 counts more cover it.
    reach = math.ceil(12 * math.sqrt(n * p * (1 - p))) + 60
    first = max(0, mode - reach)
    counts = np.arange(first + 1, min(n, mode + reach) + 1, dtype=np.float64)
    log_ratios = np.log((n - counts + 1) / counts) + math.log(p) - math.log1p(-p)
    log_mass = np.concatenate(([0.0], np.cumsum(log_ratios)))
    mass = np.exp(log_mass - log_mass.max())
    cumulative = np.cumsum(mass) / mass.sum()
    under = first + int(np.searchsorted(cumulative, tail, side="right"))
    return under - 1 if under > 0 else None
