"""Percentiles are observed samples, and their intervals cover what they say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from bench.stats.quantiles import Sample, interval_ranks, pool, quantile, rank_of, smallest_n

QUANTILES = st.sampled_from([0.5, 0.9, 0.95, 0.99])
LATENCIES = st.lists(st.one_of(st.floats(0, 100), st.just(math.inf)), min_size=1, max_size=400)


def sample(values: list[float]) -> Sample:
    return Sample.of(np.array(values, dtype=np.float64))


@given(values=LATENCIES, q=QUANTILES)
def test_the_percentile_is_the_inverse_of_the_empirical_distribution(values: list[float], q: float) -> None:
    found = sample(values).at_rank(rank_of(len(values), q))
    assert found == np.quantile(values, q, method="inverted_cdf")
    at_most = sum(value <= found for value in values)
    below = sum(value < found for value in values)
    assert at_most >= q * len(values) - 1e-9
    assert below < q * len(values)


@given(values=LATENCIES, q=QUANTILES, limit=st.floats(0, 100))
def test_a_percentile_within_a_limit_means_few_enough_samples_over_it(
    values: list[float], q: float, limit: float
) -> None:
    seen = sample(values)
    assert (seen.at_rank(rank_of(seen.n, q)) <= limit) == (seen.over(limit) <= seen.n - rank_of(seen.n, q))
    assert seen.over(limit) == sum(value > limit for value in values)


@pytest.mark.parametrize(
    ("n", "q", "rank"), [(100, 0.07, 7), (100, 0.95, 95), (20, 0.95, 19), (21, 0.95, 20), (1, 0.5, 1)]
)
def test_ranks_take_the_quantile_as_it_is_written(n: int, q: float, rank: int) -> None:
    assert rank_of(n, q) == rank


@pytest.mark.parametrize(
    ("n", "ranks"), [(6, (1, 6)), (8, (1, 8)), (9, (2, 8)), (10, (2, 9)), (15, (4, 12)), (20, (6, 15)), (25, (8, 18))]
)
def test_ranks_of_the_median_agree_with_published_tables(n: int, ranks: tuple[int, int]) -> None:
    # Sign-test intervals of the median at 95 %, as tabled in nonparametric textbooks (e.g. Hollander & Wolfe).
    assert interval_ranks(n, 0.5) == ranks


def test_there_is_no_median_interval_of_five_samples() -> None:
    assert interval_ranks(5, 0.5) is None


@given(n=st.integers(1, 3000), q=QUANTILES, confidence=st.sampled_from([0.9, 0.95, 0.99]))
def test_the_interval_covers_and_could_not_be_narrower(n: int, q: float, confidence: float) -> None:
    ranks = interval_ranks(n, q, confidence)
    tail = (1 - confidence) / 2
    if ranks is None:
        assert min(binom.cdf(0, n, q), 1.0) > tail or binom.sf(n - 1, n, q) > tail
        return
    low, high = ranks
    assert 1 <= low <= rank_of(n, q) <= high <= n
    assert binom.cdf(high - 1, n, q) - binom.cdf(low - 1, n, q) >= confidence - 1e-12
    assert binom.cdf(low, n, q) > tail
    assert binom.sf(high - 2, n, q) > tail


@pytest.mark.parametrize(
    ("q", "confidence", "n"), [(0.5, 0.95, 6), (0.9, 0.95, 36), (0.95, 0.95, 72), (0.99, 0.95, 368), (0.95, 0.99, 104)]
)
def test_below_the_smallest_number_there_is_no_figure(q: float, confidence: float, n: int) -> None:
    assert smallest_n(q, confidence) == n
    assert quantile(sample([1.0] * (n - 1)), q, confidence) is None
    assert quantile(sample([1.0] * n), q, confidence) is not None


@pytest.mark.parametrize(("n", "q"), [(100, 0.5), (100, 0.95), (300, 0.95), (400, 0.99)])
def test_intervals_cover_the_truth_as_often_as_the_binomial_says(n: int, q: float) -> None:
    # An interval off by one rank at either end has a coverage that differs by that rank's mass: 1 % and more here,
    # against a standard error of 0.15 %.
    repeats = 20_000
    ranks = interval_ranks(n, q)
    assert ranks is not None
    draws = np.sort(np.random.default_rng(20_260_911).exponential(size=(repeats, n)), axis=1)
    truth = -math.log(1 - q)
    covered = np.mean((draws[:, ranks[0] - 1] <= truth) & (truth < draws[:, ranks[1] - 1]))
    exact = binom.cdf(binom.isf(0.025, n, q), n, q) - binom.cdf(binom.ppf(0.025, n, q) - 1, n, q)
    assert exact >= 0.95
    assert covered == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / repeats))


def test_failures_are_infinitely_late() -> None:
    found = quantile(sample([0.1] * 94 + [math.inf] * 6), 0.95)
    assert found is not None
    assert found.value == math.inf
    assert found.low == 0.1
    assert found.n == 100
    still = quantile(sample([0.1] * 95 + [math.inf] * 5), 0.95)
    assert still is not None
    assert (still.value, still.high) == (0.1, math.inf)


@given(parts=st.lists(LATENCIES, max_size=5), q=QUANTILES)
def test_pooling_is_measuring_all_at_once(parts: list[list[float]], q: float) -> None:
    together = pool(sample(part) for part in parts)
    at_once = sample([value for part in parts for value in part])
    assert (together.n, together.failures) == (at_once.n, at_once.failures)
    assert quantile(together, q) == quantile(at_once, q)


def test_a_mean_of_percentiles_is_another_number() -> None:
    fast, slow = sample([0.1] * 900), sample([1.0] * 100)
    pooled = quantile(pool([fast, slow]), 0.9)
    assert pooled is not None
    assert pooled.value == 0.1  # and not (0.1 + 1.0) / 2


@pytest.mark.parametrize("wrong", [math.nan, -math.inf])
def test_what_is_no_latency_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="NaN or -infinity"):
        sample([0.5, wrong])
