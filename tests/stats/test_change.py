"""Changes between measurements: the truth in the interval, and as sure as the starts allow."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

import bench.stats.blocks as blocks_module
from bench.stats.change import Change, figure_change, quantile_change, runs_to_decide


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_module, "REPLICATES", 200)


def side(
    rng: np.random.Generator, starts: int, *, factor: float = 1.0, between: float = 0.02, n: int = 400
) -> list[NDArray[np.float64]]:
    return [0.4 * factor * np.exp(between * rng.normal()) * rng.lognormal(0, 0.15, n) for _ in range(starts)]


def known(change: Change | str) -> Change:
    assert isinstance(change, Change), change
    return change


def test_the_figures_are_those_of_the_pooled_starts() -> None:
    rng = np.random.default_rng(1)
    first, second = side(rng, 3), side(rng, 3, factor=1.3)
    change = known(quantile_change(first, second, 0.95, seed=1))
    pooled = [np.quantile(np.concatenate(runs), 0.95, method="inverted_cdf") for runs in (first, second)]
    assert change.difference == pytest.approx(pooled[1] - pooled[0])
    assert change.ratio == pytest.approx(pooled[1] / pooled[0])
    assert change.difference_low < change.difference < change.difference_high
    assert change.basis == "between starts"


@pytest.mark.parametrize("starts", [2, 3, 5])
def test_the_true_change_is_in_the_interval(starts: int) -> None:
    rng = np.random.default_rng(10 + starts)
    changes = [
        known(quantile_change(side(rng, starts), side(rng, starts, factor=1.1), 0.95, seed=pair)) for pair in range(100)
    ]
    assert sum(change.low <= 1.1 <= change.high for change in changes) >= 95


def test_starts_that_differ_are_not_taken_for_a_change() -> None:
    # Starts differ by 10 %: a bootstrap within them alone would call most of these pairs different.
    rng = np.random.default_rng(20)
    changes = [
        known(quantile_change(side(rng, 3, between=0.1), side(rng, 3, between=0.1), 0.5, seed=pair))
        for pair in range(100)
    ]
    assert sum(not change.low <= 1 <= change.high for change in changes) <= 5


def test_starts_that_agree_by_luck_are_no_surer_than_the_requests_in_them() -> None:
    rng = np.random.default_rng(21)
    run = rng.lognormal(0, 0.15, 400)
    change = known(quantile_change([run, run.copy()], [run, run.copy()], 0.95, seed=1))
    assert change.low < 0.99
    assert change.high > 1.01


def test_one_start_each_is_about_these_two() -> None:
    rng = np.random.default_rng(22)
    change = known(quantile_change(side(rng, 1), side(rng, 1, factor=1.5), 0.95, seed=1))
    assert change.basis == "within these two starts"
    assert change.low > 1


def test_a_single_start_is_taken_to_differ_as_the_others_do() -> None:
    rng = np.random.default_rng(23)
    covered = 0
    for pair in range(100):
        change = known(quantile_change(side(rng, 4, between=0.05), side(rng, 1, between=0.05), 0.5, seed=pair))
        assert change.basis == "starts of one side"
        covered += change.low <= 1 <= change.high
    assert covered >= 95


def test_no_figure_where_there_is_none() -> None:
    rng = np.random.default_rng(24)
    good = side(rng, 2)
    failed = [np.where(np.arange(400) % 10 == 0, np.inf, run) for run in good]
    assert quantile_change(good, [run[:50] for run in good], 0.95, seed=1) == "too few requests on the second side"
    assert quantile_change(failed, good, 0.95, seed=1) == "it falls among the failures on the first side"
    assert quantile_change(good, [], 0.95, seed=1) == "too few requests on the second side"
    assert quantile_change(good, [np.zeros(400)], 0.95, seed=1) == "it is 0 on the second side"


def test_a_figure_of_each_start() -> None:
    change = known(figure_change([10.0, 10.2, 9.8], [12.0, 12.3, 11.7]))
    assert change.low < 1.2 < change.high < 1.3
    assert figure_change([10.0], [12.0]) == "one start on each side"
    assert figure_change([0.0, 1.0], [12.0]) == "there is none on one side"


def test_the_starts_that_would_decide_do_decide() -> None:
    rng = np.random.default_rng(25)
    # From one start to the next 2 %, and 1.6 % of chance in a p95 of 400 requests.
    change = Change(0.0, 0.0, 0.0, 1.08, 0.9, 1.2, 0.95, "between starts", 0.0256)
    runs = runs_to_decide(change, 1.0)
    assert runs == 4
    decided = [
        known(quantile_change(side(rng, runs), side(rng, runs, factor=1.08), 0.95, seed=pair)).low > 1
        for pair in range(40)
    ]
    assert sum(decided) >= 30
    assert runs_to_decide(change, change.ratio) is None


def test_the_same_seed_gives_the_same_interval() -> None:
    rng = np.random.default_rng(26)
    first, second = side(rng, 1), side(rng, 1)
    assert quantile_change(first, second, 0.5, seed=1) == quantile_change(first, second, 0.5, seed=1)
    assert math.isfinite(known(quantile_change(first, second, 0.5, seed=2)).low)
