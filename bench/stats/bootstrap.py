"""How much two measurements differ in a percentile, when their samples come in clusters.

Requests of one stream share its conversations, and requests of one run share its engine start: they are not
independent, and treating them so makes every difference look sure. So whole clusters are drawn with replacement, never
single requests (Davison & Hinkley 1997, "Bootstrap Methods and their Application", section 3.8; Field & Welsh 2007,
"Bootstrapping clustered data", Journal of the Royal Statistical Society B 69), and the interval is that of the drawn
differences (Efron & Tibshirani 1993, "An Introduction to the Bootstrap", chapter 13).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bench.stats.quantiles import CONFIDENCE, rank_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

REPLICATES: Final = 2000
"""Puts some 50 drawn differences beyond each end of a 95 % interval: the ends then move little with the seed."""

FEWEST_CLUSTERS: Final = 10
"""Below this the drawn clusters differ too little for the interval to cover what it says."""


@dataclass(frozen=True, slots=True, eq=False)
class Clustered:
    """Samples and the cluster of each.

    Attributes:
        values: seconds, +infinity for a failure, shape (n,).
        clusters: any integers, shape (n,).
    """

    values: NDArray[np.float64]
    clusters: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Difference:
    """Second minus first, in seconds: the observed difference and its interval."""

    value: float
    low: float
    high: float
    confidence: float


def quantile_difference(
    first: Clustered, second: Clustered, q: float, *, seed: int, confidence: float = CONFIDENCE
) -> Difference | None:
    """The difference of a percentile between two measurements, with a cluster-bootstrap interval.

    Args:
        first: what is compared against.
        second: what is compared.
        q: which percentile.
        seed: decides the draws; the same seed gives the same interval.
        confidence: of the interval.

    Returns:
        None where one of the two has fewer than ten clusters, or where the observed percentile or an end of the
        interval falls among the failures: there is no such difference in seconds.
    """
    rng = np.random.default_rng(seed)
    observed, drawn = [], []
    for sample in (first, second):
        order = np.argsort(sample.values, kind="stable")
        ordered = sample.values[order]
        names, members = np.unique(sample.clusters[order], return_inverse=True)
        if len(names) < FEWEST_CLUSTERS:
            return None
        observed.append(float(ordered[rank_of(len(ordered), q) - 1]))
        drawn.append(_replicates(ordered, members, len(names), q, rng))
    if not all(map(math.isfinite, observed)):
        return None
    with np.errstate(invalid="ignore"):  # infinity minus infinity: told apart below
        differences = np.sort(drawn[1] - drawn[0])
    tail = math.floor((1 - confidence) / 2 * REPLICATES)
    low, high = float(differences[tail]), float(differences[-1 - tail])
    if np.isnan(differences).any() or not (math.isfinite(low) and math.isfinite(high)):
        return None
    return Difference(observed[1] - observed[0], low, high, confidence)


def _replicates(
    ordered: NDArray[np.float64], members: NDArray[np.intp], clusters: int, q: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """The percentile of each redrawn sample, from one sort: a value counts as often as its cluster was drawn."""
    figures = np.empty(REPLICATES)
    for replicate in range(REPLICATES):
        times_drawn = np.bincount(rng.integers(clusters, size=clusters), minlength=clusters)
        upto = np.cumsum(times_drawn[members])
        figures[replicate] = ordered[np.searchsorted(upto, rank_of(int(upto[-1]), q))]
    return figures
