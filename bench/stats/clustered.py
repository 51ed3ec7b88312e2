"""Counts of requests that are not independent: how many independent ones they are worth.

Late requests come in bursts: whoever is sent into a full queue waits with everybody else. A binomial bound on the plain
counts would then claim more than they show. Rao & Scott (1992), "A simple method for the analysis of clustered binary
data", Biometrics 48, divide both counts by the design effect, the variance of the observed share over the one that it
would have if all requests were independent, and go on with the usual binomial methods.

The design effect of a series is 1 plus twice the sum of its autocorrelations. They are summed as Geyer (1992),
"Practical Markov chain Monte Carlo", Statistical Science 7, section 3.3, does: two by two, each pair at most as large
as the one before, until a pair is not positive. All windows of a setting are centred on the share of all, so that
replicates that differ more than chance allows count as correlated too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

LONGEST_LAG: Final = 1000
"""Requests: beyond this a window is not long enough to tell anyway."""

MOST_PRODUCTS: Final = 100_000_000
"""Of one design effect: 1,000 lags of 100,000 requests. Made-up records must not cost hours to verify."""


@dataclass(frozen=True, eq=False)
class Counts:
    """Requests of one setting.

    Attributes:
        windows: whether each request was bad, in order of time, an array of shape (n,) for each window.
    """

    windows: tuple[NDArray[np.bool_], ...] = ()

    @classmethod
    def of(cls, bad: Sequence[bool] | NDArray[np.bool_]) -> Counts:
        """One window."""
        return cls((np.asarray(bad, dtype=np.bool_),))

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.windows + other.windows)

    @cached_property
    def n(self) -> int:
        """Requests."""
        return sum(len(window) for window in self.windows)

    @cached_property
    def bad(self) -> int:
        """Bad ones among them."""
        return sum(int(window.sum()) for window in self.windows)

    @property
    def share(self) -> float:
        """Bad ones as a share; 1.0 where there is no request at all: what answers nobody holds no limit."""
        return self.bad / self.n if self.n else 1.0


def design_effect(settings: Iterable[Counts]) -> float:
    """How many requests are worth one independent one.

    Args:
        settings: whose requests are correlated alike; each is centred on its own share.

    Returns:
        At least 1: what is less cannot be told from chance. 1.0 where no setting has both good and bad requests.
    """
    mixed = [counts for counts in settings if 0 < counts.share < 1]
    centred = [window.astype(np.float64) - counts.share for counts in mixed for window in counts.windows]
    variance = math.fsum(counts.n * counts.share * (1 - counts.share) for counts in mixed)
    lengths = [len(window) for window in centred]
    longest = min(LONGEST_LAG, MOST_PRODUCTS // max(1, sum(lengths)), max(lengths, default=0) - 1)
    total, before = 0.0, math.inf
    for lag in range(0, longest, 2):
        pair = math.fsum(_product(window, lag) + _product(window, lag + 1) for window in centred) / variance
        if pair <= 0:
            break
        before = min(before, pair)
        total += before
    return max(1.0, 2 * total - 1)


def _product(window: NDArray[np.float64], lag: int) -> float:
    """The sum of the products of values that are `lag` apart."""
    return float((window[: len(window) - lag] * window[lag:]).sum()) if lag < len(window) else 0.0
