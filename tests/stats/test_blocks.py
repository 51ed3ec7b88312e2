"""Redrawn stretches of a run."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import bench.stats.blocks as blocks_module
from bench.stats.blocks import FEWEST_BLOCKS, _times_drawn, block_length, redrawn


def correlated(rng: np.random.Generator, n: int, rho: float) -> NDArray[np.float64]:
    """A latency that remembers the one before: AR(1) in the logarithm."""
    noise = rng.normal(size=n)
    level = np.empty(n)
    level[0] = noise[0]
    for index in range(1, n):
        level[index] = rho * level[index - 1] + np.sqrt(1 - rho**2) * noise[index]
    return np.exp(0.2 * level)


@pytest.mark.parametrize(("n", "length"), [(10, 1), (10, 3), (11, 11), (100, 7)])
def test_as_many_are_drawn_as_there_are_and_in_stretches(n: int, length: int) -> None:
    drawn = _times_drawn(n, length, np.random.default_rng(5))
    assert drawn.sum() == n
    assert (drawn >= 0).all()
    if length == n:
        assert (drawn == 1).all()


def test_a_redrawn_percentile_is_that_of_the_drawn_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_module, "REPLICATES", 20)
    monkeypatch.setattr(blocks_module, "FEWEST_REPLICATES", 20)
    run = np.random.default_rng(1).lognormal(size=150)
    found = redrawn([run], 0.9, seed=3)
    rng = np.random.default_rng(3)
    for figure in found:
        times = _times_drawn(len(run), block_length(run, 0.9), rng)
        assert figure == np.quantile(np.repeat(run, times), 0.9, method="inverted_cdf")


def test_requests_that_follow_each_other_make_longer_stretches() -> None:
    rng = np.random.default_rng(2)
    alone, together = correlated(rng, 2000, 0.0), correlated(rng, 2000, 0.9)
    assert 8 <= block_length(alone, 0.5) < 40
    assert 2 * block_length(alone, 0.5) < block_length(together, 0.5) <= 2000 // FEWEST_BLOCKS


def test_the_spread_is_that_of_the_figure_over_many_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    # Single requests drawn would tell a third of the true spread here.
    monkeypatch.setattr(blocks_module, "REPLICATES", 200)
    rng = np.random.default_rng(4)
    runs = [correlated(rng, 1000, 0.8) for _ in range(60)]
    true = np.std([np.quantile(run, 0.5) for run in runs])
    told = np.mean([redrawn([run], 0.5, seed=1).std() for run in runs[:15]])
    assert 0.7 * true < told < 1.3 * true


def test_huge_samples_are_redrawn_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_module, "WORK", 100_000)
    assert len(redrawn([np.random.default_rng(1).lognormal(size=1000)], 0.5, seed=1)) == 200
