"""Gates over many simulated pairs: how often they are wrong, and how often they find what is there."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import bench.stats.blocks as blocks_module
from bench.explain.compare.gate import ERROR, verdict_of
from bench.stats.change import Change, quantile_change

PAIRS = 200


def starts(rng: np.random.Generator, count: int, factor: float = 1.0) -> list[NDArray[np.float64]]:
    """Engine starts that differ by 2 %, of 300 requests whose latencies hang together (AR(1), 0.5)."""
    found = []
    for _ in range(count):
        noise = rng.normal(size=300)
        level = np.empty(300)
        level[0] = noise[0]
        for index in range(1, 300):
            level[index] = 0.5 * level[index - 1] + np.sqrt(0.75) * noise[index]
        found.append(0.4 * factor * np.exp(0.02 * rng.normal() + 0.12 * level))
    return found


def verdicts(factor: float, limit: float, *, count: int, pairs: int) -> list[str]:
    rng = np.random.default_rng(7)
    found: list[str] = []
    for pair in range(pairs):
        change = quantile_change(starts(rng, count), starts(rng, count, factor), 0.95, seed=pair, confidence=1 - ERROR)
        assert isinstance(change, Change)
        found.append(verdict_of(change, limit)[0])
    return found


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_module, "REPLICATES", 100)
    monkeypatch.setattr(blocks_module, "FEWEST_REPLICATES", 100)


def test_two_measurements_of_the_same_are_rarely_called_a_regression() -> None:
    # The harshest gate there is: nothing at all may be slower.
    found = verdicts(1.0, 1.0, count=3, pairs=PAIRS)
    assert found.count("regression") <= ERROR * PAIRS


def test_a_change_of_exactly_the_limit_is_rarely_called_either() -> None:
    found = verdicts(1.05, 1.05, count=3, pairs=100)
    assert found.count("regression") <= 5
    assert found.count("no regression") <= 5


def test_ten_percent_are_found_in_most_pairs() -> None:
    found = verdicts(1.1, 1.0, count=5, pairs=100)
    assert found.count("regression") >= 85
    assert "no regression" not in found


def test_nothing_is_called_no_regression_within_five_percent() -> None:
    found = verdicts(1.0, 1.05, count=6, pairs=50)
    assert found.count("no regression") >= 30
    assert "regression" not in found
