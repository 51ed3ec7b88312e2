"""The binomial tail, against scipy and by brute force."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from bench.stats.binomial import SMALLEST_TAIL, largest_count

CHANCES = st.floats(0.001, 0.999)
TAILS = st.floats(1e-9, 0.999)


@given(n=st.integers(1, 5000), p=CHANCES, tail=TAILS)
def test_it_is_the_largest_count_with_so_small_a_tail(n: int, p: float, tail: float) -> None:
    count = largest_count(n, p, tail)
    # A hair of slack: scipy's own sums are rounded too.
    if count is not None:
        assert 0 <= count <= n
        assert binom.cdf(count, n, p) <= tail * (1 + 1e-9)
    above = 0 if count is None else count + 1
    assert binom.cdf(above, n, p) > tail * (1 - 1e-9)


@given(n=st.integers(1, 12), p=CHANCES, tail=TAILS)
def test_small_cases_agree_with_the_definition(n: int, p: float, tail: float) -> None:
    masses = [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
    counts = [m for m in range(n) if math.fsum(masses[: m + 1]) <= tail * (1 - 1e-12)]
    on_the_edge = [m for m in range(n) if math.fsum(masses[: m + 1]) == pytest.approx(tail, rel=1e-12)]
    assert largest_count(n, p, tail) in {max(counts, default=None), *on_the_edge}


@pytest.mark.parametrize("n", [10_000, 1_000_000])
@pytest.mark.parametrize("p", [0.01, 0.05, 0.5, 0.95])
def test_large_samples_keep_their_precision(n: int, p: float) -> None:
    for tail in (0.005, 0.01, 0.025):
        expected = int(binom.ppf(tail, n, p))
        expected -= int(binom.cdf(expected, n, p) > tail)
        assert largest_count(n, p, tail) == expected


def test_a_tail_as_large_as_allowed_is_allowed() -> None:
    assert largest_count(1, 0.5, 0.5) == 0
    assert largest_count(2, 0.5, 0.75) == 1


def test_the_long_tail_of_few_expected_counts_is_summed() -> None:
    # One failure of 1,000 expected: Poisson's tail reaches beyond 12 standard deviations.
    tail = 1e-12
    expected = next(m for m in range(1000, 0, -1) if binom.cdf(m, 1000, 0.999) <= tail)
    assert largest_count(1000, 0.999, tail) == expected


def test_there_is_no_count_where_even_none_is_too_likely() -> None:
    assert largest_count(0, 0.05, 0.01) is None
    # 0.95 ** 89 is 1.04 %, 0.95 ** 90 is 0.99 %.
    assert largest_count(89, 0.05, 0.01) is None
    assert largest_count(90, 0.05, 0.01) == 0


@pytest.mark.parametrize(
    ("n", "p", "tail"), [(-1, 0.5, 0.1), (1, 0.0, 0.1), (1, 1.0, 0.1), (1, 0.5, SMALLEST_TAIL / 2), (1, 0.5, 1.0)]
)
def test_arguments_outside_their_range_are_refused(n: int, p: float, tail: float) -> None:
    with pytest.raises(ValueError, match="largest_count needs"):
        largest_count(n, p, tail)
