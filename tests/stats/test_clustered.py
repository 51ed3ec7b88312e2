"""The design effect: 1 for independent requests, that of a Markov chain where its theory says what it is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.stats.clustered import Counts, design_effect


def chain(keep: float, share: float, n: int, seed: int) -> Counts:
    """Requests that are bad with `share`; each is like the one before with `keep`, else drawn anew."""
    rng = np.random.default_rng(seed)
    fresh, anew = rng.random(n) < share, rng.random(n) >= keep
    anew[0] = True
    return Counts.of(fresh[np.maximum.accumulate(np.where(anew, np.arange(n), 0))])


@pytest.mark.parametrize("keep", [0.0, 0.5, 0.8, 0.9])
def test_a_markov_chain_has_the_effect_of_its_theory(keep: float) -> None:
    """Correlations are keep ** k, and 1 + 2 (keep + keep ** 2 + ...) = (1 + keep) / (1 - keep)."""
    found = design_effect(chain(keep, 0.3, 20_000, seed) for seed in range(5))
    assert found == pytest.approx((1 + keep) / (1 - keep), rel=0.15)


def test_replicates_that_differ_more_than_chance_count_as_correlated() -> None:
    rng = np.random.default_rng(1)
    apart = Counts.of(rng.random(500) < 0.02) + Counts.of(rng.random(500) < 0.3)
    assert design_effect([apart]) > 20
    alike = Counts.of(rng.random(500) < 0.16) + Counts.of(rng.random(500) < 0.16)
    assert design_effect([alike]) < 2


def test_settings_are_each_centred_on_their_own_share() -> None:
    rng = np.random.default_rng(2)
    apart = [Counts.of(rng.random(500) < 0.02), Counts.of(rng.random(500) < 0.3)]
    assert design_effect(apart) < 2


@given(st.lists(st.booleans(), max_size=60))
def test_it_is_at_least_one_and_at_most_all(bad: list[bool]) -> None:
    counts = Counts.of(bad)
    assert (counts.n, counts.bad) == (len(bad), sum(bad))
    assert 1.0 <= design_effect([counts]) <= max(1, len(bad))


@pytest.mark.parametrize("bad", [[], [True] * 9, [False] * 9, [True]])
def test_without_both_kinds_nothing_can_be_said(bad: list[bool]) -> None:
    assert design_effect([Counts.of(bad)]) == 1.0
    assert Counts.of([]).share == 1.0
