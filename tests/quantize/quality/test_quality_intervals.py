from __future__ import annotations

import numpy as np
import pytest

from quantize.quality.intervals import block_interval, ratio_of_means


def test_the_figure_is_the_ratio_of_totals_not_the_mean_of_ratios() -> None:
    found = block_interval(np.array([[1.0, 1.0], [0.0, 3.0]]), ratio_of_means(0, 1), seed=1)
    assert found is not None
    assert found.value == pytest.approx(0.25)
    assert (found.low, found.high, found.blocks) == (None, None, 2)


def test_the_interval_is_about_as_wide_as_theory_says() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=400)
    found = block_interval(np.column_stack([values, np.ones(400)]), ratio_of_means(0, 1), seed=2)
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high
    assert found.high - found.low == pytest.approx(2 * 1.96 * values.std() / 20, rel=0.1)


def test_pairs_stay_together() -> None:
    rng = np.random.default_rng(1)
    hard = rng.normal(scale=10, size=50)  # what makes a text hard for both models
    sums = np.column_stack([hard, hard + 0.1, np.ones(50)])
    found = block_interval(sums, lambda drawn: (drawn[..., 1] - drawn[..., 0]) / drawn[..., 2], seed=1)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((0.1, 0.1))


def test_a_seed_decides_the_draws() -> None:
    sums = np.column_stack([np.arange(20.0), np.ones(20)])
    one, same, other = (block_interval(sums, ratio_of_means(0, 1), seed=seed) for seed in (1, 1, 2))
    assert one == same
    assert one != other


def test_no_figure_where_there_is_nothing_to_divide_by() -> None:
    assert block_interval(np.zeros((20, 2)), ratio_of_means(0, 1), seed=1) is None


def test_no_interval_where_some_draws_have_no_figure() -> None:
    sums = np.zeros((10, 2))
    sums[0] = 1
    found = block_interval(sums, ratio_of_means(0, 1), seed=1)
    assert found is not None
    assert found.low is None
