"""Differences of percentiles, with whole clusters drawn."""

from __future__ import annotations

import math

import numpy as np
import pytest

import bench.stats.bootstrap as bootstrap_module
from bench.stats.bootstrap import FEWEST_CLUSTERS, Clustered, quantile_difference


def clustered(rng: np.random.Generator, *, shift: float = 0.0, between: float = 0.0, clusters: int = 20) -> Clustered:
    """Twenty requests a cluster; clusters differ by `between`."""
    names = np.repeat(np.arange(clusters), 20)
    values = 1 + shift + between * rng.normal(size=clusters)[names] + 0.05 * rng.normal(size=len(names))
    return Clustered(values, names)


def test_the_observed_difference_is_that_of_the_percentiles() -> None:
    rng = np.random.default_rng(1)
    first, second = clustered(rng), clustered(rng, shift=0.3)
    found = quantile_difference(first, second, 0.95, seed=4)
    assert found is not None
    expected = np.quantile(second.values, 0.95, method="inverted_cdf") - np.quantile(
        first.values, 0.95, method="inverted_cdf"
    )
    assert found.value == pytest.approx(expected)
    assert found.low <= found.value <= found.high
    assert 0.2 < found.low < 0.3 < found.high < 0.4


def test_a_replicate_is_the_percentile_of_the_drawn_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap_module, "REPLICATES", 50)
    sample = clustered(np.random.default_rng(2), between=0.5, clusters=12)
    order = np.argsort(sample.values, kind="stable")
    ordered, members = sample.values[order], sample.clusters[order]
    found = bootstrap_module._replicates(ordered, members, 12, 0.9, np.random.default_rng(9))
    rng = np.random.default_rng(9)
    for replicate in found:
        redrawn = np.concatenate([sample.values[sample.clusters == name] for name in rng.integers(12, size=12)])
        assert replicate == np.quantile(redrawn, 0.9, method="inverted_cdf")


def test_the_same_seed_gives_the_same_interval() -> None:
    rng = np.random.default_rng(3)
    first, second = clustered(rng), clustered(rng)
    assert quantile_difference(first, second, 0.5, seed=1) == quantile_difference(first, second, 0.5, seed=1)
    assert quantile_difference(first, second, 0.5, seed=1) != quantile_difference(first, second, 0.5, seed=2)


def test_intervals_cover_a_difference_between_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    # Clusters differ far more than requests do. Drawing single requests instead would cover some 3 times in 10.
    monkeypatch.setattr(bootstrap_module, "REPLICATES", 300)
    rng = np.random.default_rng(11)
    covered = 0
    for repeat in range(150):
        first, second = clustered(rng, between=0.3, clusters=30), clustered(rng, shift=0.1, between=0.3, clusters=30)
        found = quantile_difference(first, second, 0.5, seed=repeat)
        assert found is not None
        covered += found.low <= 0.1 <= found.high
    assert 0.88 <= covered / 150 <= 1


def test_too_few_clusters_give_no_interval() -> None:
    rng = np.random.default_rng(5)
    few, enough = clustered(rng, clusters=FEWEST_CLUSTERS - 1), clustered(rng, clusters=FEWEST_CLUSTERS)
    assert quantile_difference(few, enough, 0.5, seed=1) is None
    assert quantile_difference(enough, few, 0.5, seed=1) is None
    assert quantile_difference(enough, enough, 0.5, seed=1) is not None


def failing(clusters_that_fail: int, *, clusters: int = 20) -> Clustered:
    sample = clustered(np.random.default_rng(6), clusters=clusters)
    return Clustered(np.where(sample.clusters < clusters_that_fail, math.inf, sample.values), sample.clusters)


@pytest.mark.parametrize("how_many", [12, 9], ids=["the percentile", "an end of the interval"])
def test_there_is_no_difference_among_failures(how_many: int) -> None:
    whole = clustered(np.random.default_rng(7))
    assert quantile_difference(failing(how_many), whole, 0.5, seed=1) is None
    assert quantile_difference(whole, failing(how_many), 0.5, seed=1) is None
    assert quantile_difference(failing(how_many), failing(how_many), 0.5, seed=1) is None


def test_a_few_failures_leave_a_difference_of_medians() -> None:
    found = quantile_difference(failing(1), failing(1), 0.5, seed=1)
    assert found is not None
    assert found.value == 0.0
