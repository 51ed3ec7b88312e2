"""Several runs of the same point: how much engine starts differ, and when there are samples enough."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.stats.quantiles import quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.stats.quantiles import Quantile, Sample

NARROW: Final = 0.1
"""An interval this wide, as a share of the percentile, says where p95 lies to some 5 % either way: as close as the
tightest tolerance of a published figure."""


@dataclass(frozen=True, slots=True)
class BetweenRuns:
    """The same percentile in each of several runs.

    Attributes:
        per_run: seconds, in order of the runs.
        variance: unbiased sample variance between the runs, seconds squared.
        coefficient: standard deviation as a share of the mean of `per_run`. (That mean is never a result: the
            percentile of a point is that of the pooled samples.)
    """

    per_run: tuple[float, ...]
    variance: float
    coefficient: float


def between_runs(samples: Sequence[Sample], q: float) -> BetweenRuns | None:
    """How much a percentile differs between runs.

    Args:
        samples: one per run.
        q: which percentile.

    Returns:
        None with fewer than two runs, where one is too small for the percentile or has it among its failures, and
        where all are 0, of which there is no share.
    """
    figures = [quantile(sample, q) for sample in samples]
    values = tuple(figure.value for figure in figures if figure is not None and math.isfinite(figure.value))
    if len(values) < max(2, len(samples)) or not any(values):
        return None
    variance = statistics.variance(values)
    return BetweenRuns(values, variance, math.sqrt(variance) / statistics.fmean(values))


def narrow_enough(estimate: Quantile | None, share: float = NARROW) -> bool:
    """Whether a run may stop early: the interval is at most `share` of the percentile wide.

    Stopping by the width of an interval, and never by where it lies, keeps the coverage that it states as samples grow
    (Chow & Robbins 1965, "On the asymptotic theory of fixed-width sequential confidence intervals for the mean", Annals
    of Mathematical Statistics 36). To stop when a claim has just held would not.

    Args:
        estimate: None where there are too few samples for one: never narrow enough.
        share: the width asked for, as a share of the percentile.
    """
    if estimate is None or not math.isfinite(estimate.high):
        return False
    return estimate.high - estimate.low <= share * estimate.value
