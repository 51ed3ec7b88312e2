"""Percentiles as observed samples, with distribution-free confidence intervals.

A percentile here is an order statistic, the inverse of the empirical distribution function (type 1 in Hyndman & Fan
1996, "Sample quantiles in statistical packages", The American Statistician 50(4)). It is never interpolated, so that
"p95 is at most x" and "at least 95 % of the samples are at most x" are the same statement, and a percentile agrees with
its certificate (`bench.stats.certificate`).

The interval uses no more than the order: the number of samples at or under the true quantile is Binomial(n, q), so the
quantile lies between the order statistics l and u with probability P(l <= Binomial(n, q) < u) (David & Nagaraja 2003,
"Order Statistics", 3rd ed., section 7.1; Hahn & Meeker 1991, "Statistical Intervals", section 5.2). Each side gets half
of the error, and is at least as safe as stated; ties make it safer still.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import numpy as np

from bench.stats.binomial import largest_count

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

CONFIDENCE: Final = 0.95
"""Of the intervals that stand beside percentiles; the usual one, so that readers need not translate."""


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One sample: what was measured, and how many had no measure because they failed.

    Attributes:
        values: seconds, finite, ascending, shape (n - failures,).
        failures: requests that failed: they count as infinitely late.
    """

    values: NDArray[np.float64]
    failures: int

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Sample:
        """From unsorted values, shape (n,), in which a failure is +infinity.

        Raises:
            ValueError: a value is NaN or -infinity: there is no such latency.
        """
        ordered = np.sort(values)
        finite = int(np.searchsorted(ordered, np.inf, side="left"))
        if np.isnan(ordered).any() or np.isneginf(ordered).any():
            raise ValueError("a sample holds NaN or -infinity")
        return cls(ordered[:finite], len(ordered) - finite)

    @property
    def n(self) -> int:
        """Samples, failures included."""
        return len(self.values) + self.failures

    def at_rank(self, rank: int) -> float:
        """The order statistic of a rank in [1, n]; +infinity among the failures."""
        return float(self.values[rank - 1]) if rank <= len(self.values) else math.inf

    def over(self, limit: float) -> int:
        """How many are over a limit, failures included."""
        return self.n - int(np.searchsorted(self.values, limit, side="right"))


def pool(samples: Iterable[Sample]) -> Sample:
    """All samples as one: the percentile of several runs is that of their pooled samples, never a mean of theirs."""
    parts = list(samples)
    values = np.sort(np.concatenate([part.values for part in parts])) if parts else np.empty(0)
    return Sample(values, sum(part.failures for part in parts))


@dataclass(frozen=True, slots=True)
class Quantile:
    """A percentile with its interval; +infinity where a rank falls among the failures.

    Attributes:
        value, low, high: seconds.
        confidence: of the interval, e.g. 0.95.
        n: samples, failures included.
    """

    value: float
    low: float
    high: float
    confidence: float
    n: int


def rank_of(n: int, q: float) -> int:
    """The rank of the q-quantile of n samples: the smallest r with r / n >= q, in [1, n].

    `q` is taken as the decimal it is written as: 0.07 of 100 is rank 7, where floating point would say 8.
    """
    return max(1, math.ceil(Fraction(repr(q)) * n))


def interval_ranks(n: int, q: float, confidence: float = CONFIDENCE) -> tuple[int, int] | None:
    """Ranks (l, u) of the order statistics that enclose the true q-quantile; None where n is too small for both."""
    tail = (1 - confidence) / 2
    below, above = largest_count(n, q, tail), largest_count(n, 1 - q, tail)
    return None if below is None or above is None else (below + 1, n - above)


def smallest_n(q: float, confidence: float = CONFIDENCE) -> int:
    """The fewest samples with an interval at all: 72 for p95 and 368 for p99 at 95 %."""
    return math.ceil(math.log((1 - confidence) / 2) / math.log(max(q, 1 - q)))


def quantile(sample: Sample, q: float, confidence: float = CONFIDENCE) -> Quantile | None:
    """The q-quantile with its interval; None below `smallest_n`: no figure rather than a bad one."""
    ranks = interval_ranks(sample.n, q, confidence)
    if ranks is None:
        return None
    low, high = (sample.at_rank(rank) for rank in ranks)
    return Quantile(sample.at_rank(rank_of(sample.n, q)), low, high, confidence, sample.n)
