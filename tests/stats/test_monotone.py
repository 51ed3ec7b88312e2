"""Isotonic regression: a published example, the min-max formula, and what any such fit must be."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.stats.monotone import isotonic

PAIRS = st.lists(st.tuples(st.floats(-100, 100), st.floats(0.1, 100)), min_size=1, max_size=12)


def by_min_max(values: list[float], weights: list[float]) -> list[float]:
    """Barlow et al. 1972, equation 1.9: the largest over starts of the smallest over ends of the weighted means."""

    def mean(first: int, last: int) -> float:
        part = range(first, last + 1)
        return sum(values[k] * weights[k] for k in part) / sum(weights[k] for k in part)

    n = len(values)
    return [max(min(mean(first, last) for last in range(k, n)) for first in range(k + 1)) for k in range(n)]


def test_the_fit_pools_what_falls() -> None:
    # Values and fit as in de Leeuw, Hornik & Mair 2009, "Isotone Optimization in R", with equal weights.
    assert isotonic([1, 3, 2, 4, 3.5, 5], [1] * 6) == (1, 2.5, 2.5, 3.75, 3.75, 5)
    assert isotonic([3, 2, 1], [1, 1, 2]) == pytest.approx((7 / 4,) * 3)


@given(PAIRS)
def test_it_is_the_best_of_those_that_never_fall(pairs: list[tuple[float, float]]) -> None:
    values, weights = [list(each) for each in zip(*pairs, strict=True)]
    fit = isotonic(values, weights)
    assert fit == pytest.approx(by_min_max(values, weights), abs=1e-9)
    assert all(a <= b + 1e-12 for a, b in pairwise(fit))


def test_what_never_falls_is_left_alone() -> None:
    assert isotonic([0.1, 0.1, 0.7], [3, 1, 2]) == (0.1, 0.1, 0.7)
    assert isotonic([], []) == ()


@pytest.mark.parametrize(("values", "weights"), [([1.0], []), ([1.0], [0.0]), ([1.0, 2.0], [1.0, -1.0])])
def test_a_weight_is_needed_for_each_value(values: list[float], weights: list[float]) -> None:
    with pytest.raises(ValueError, match="weight above 0"):
        isotonic(values, weights)
