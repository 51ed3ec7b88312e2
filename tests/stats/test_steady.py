"""MSER-5 finds the ramp, and a window is unsteady only where the ramp decides a figure."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from bench.stats.steady import is_steady, mser5

Series = NDArray[np.float64]


def mser5_by_definition(series: Series) -> int:
    means = [float(np.mean(series[at : at + 5])) for at in range(0, len(series) - 4, 5)]
    half = range(len(means) // 2 + 1)
    errors = [float(np.var(means[d:])) / (len(means) - d) for d in half]
    return 5 * int(np.argmin(errors))


@given(seed=st.integers(0, 2**32), n=st.integers(100, 400), slow=st.integers(0, 60))
def test_it_is_what_its_definition_says(seed: int, n: int, slow: int) -> None:
    series = np.random.default_rng(seed).lognormal(0, 0.4, n)
    series[:slow] *= 2
    assert mser5(series) == mser5_by_definition(series)


def test_a_ramp_of_forty_is_cut_at_forty() -> None:
    series = np.concatenate((np.full(40, 2.0), np.full(160, 0.1)))
    assert mser5(series) == 40


def test_a_constant_series_loses_nothing() -> None:
    assert mser5(np.full(203, 0.1)) == 0


def test_large_values_lose_no_digits() -> None:
    series = np.random.default_rng(8).lognormal(0, 0.4, 300)
    series[:30] *= 2
    assert mser5(series + 2**26) == mser5(series) == 30


def test_at_most_the_first_half_is_searched() -> None:
    rising = np.linspace(0, 1, 200) ** 4
    cut = mser5(rising[::-1])
    assert cut is not None
    assert cut <= 100


def test_below_one_hundred_there_is_no_answer() -> None:
    assert mser5(np.ones(99)) is None
    assert is_steady([np.ones(99)]) is None
    assert is_steady([np.ones(500), np.ones(99)]) is None
    assert is_steady([]) is None
    assert is_steady([np.ones(100)]) is True


def share_unsteady(draw: Callable[[np.random.Generator], list[Series]], repeats: int = 400) -> float:
    rng = np.random.default_rng(5)
    return float(np.mean([is_steady(draw(rng)) is False for _ in range(repeats)]))


@pytest.mark.parametrize("n", [100, 200, 1000])
@pytest.mark.parametrize("kind", ["normal", "exponential", "lognormal"])
def test_independent_samples_are_steady(n: int, kind: str) -> None:
    def draw(rng: np.random.Generator) -> list[Series]:
        if kind == "normal":
            return [rng.normal(1.0, 0.1, n)]
        return [rng.exponential(1.0, n) if kind == "exponential" else rng.lognormal(0, 0.5, n)]

    assert share_unsteady(draw) <= 0.015


@pytest.mark.parametrize("n", [150, 300, 1000])
@pytest.mark.parametrize(("kept", "most"), [(0.5, 0.025), (0.8, 0.0625), (0.9, 0.0625)])
def test_requests_that_wait_together_are_steady(n: int, kept: float, most: float) -> None:
    """Each latency has something of the one before: streams that happen to speak at once are no ramp."""

    def draw(rng: np.random.Generator) -> list[Series]:
        noise = rng.normal(0, math.sqrt(1 - kept**2), n)
        level = np.empty(n)
        level[0] = rng.normal()
        for at in range(1, n):
            level[at] = kept * level[at - 1] + noise[at]
        return [np.exp(0.3 * level)]

    assert share_unsteady(draw) <= most


@pytest.mark.parametrize(
    ("n", "runs", "leaked", "least"), [(200, 1, 0.1, 0.8), (400, 1, 0.05, 0.5), (400, 3, 0.05, 0.95)]
)
def test_a_slow_beginning_is_seen(n: int, runs: int, leaked: float, least: float) -> None:
    def draw(rng: np.random.Generator) -> list[Series]:
        windows = [rng.lognormal(0, 0.3, n) for _ in range(runs)]
        for window in windows:
            window[: int(n * leaked)] *= 2
        return windows

    assert share_unsteady(draw) >= least


def test_a_single_slow_batch_decides_nothing() -> None:
    window = np.random.default_rng(1).lognormal(0, 0.3, 400)
    window[:5] += 5
    assert mser5(window) == 5
    assert is_steady([window]) is True


def test_a_stall_in_the_middle_is_no_ramp() -> None:
    window = np.random.default_rng(1).lognormal(0, 0.3, 400)
    window[280:283] += 8
    assert is_steady([window]) is True


def test_a_fast_beginning_counts_as_well() -> None:
    # An engine that starts idle and fills up: the first requests flatter the median.
    rng = np.random.default_rng(2)
    assert is_steady([np.concatenate((rng.normal(0.2, 0.01, 90), rng.normal(1.0, 0.05, 310)))]) is False


def test_a_window_that_changes_after_its_middle_has_no_warm_up_to_find() -> None:
    """A neighbour on the machine made 6 streams on two cores slower half-way: the beginning decided nothing."""
    rng = np.random.default_rng(5)
    window = np.concatenate((rng.normal(0.2, 0.01, 220), rng.normal(0.3, 0.01, 180)))
    assert mser5(window) == 200
    assert is_steady([window]) is None


def test_what_is_longer_than_a_quarter_is_no_beginning() -> None:
    """Four streams on two cores, whose seed makes them speak more often in the first 40 % of the window."""
    rng = np.random.default_rng(5)
    for share, verdict in ((0.2, False), (0.4, None)):
        window = rng.normal(0.19, 0.02, 280)
        window[: int(280 * share)] += 0.03
        assert is_steady([window]) is verdict
