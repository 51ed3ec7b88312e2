"""Replicas for a number of calls: arithmetic, and calls that are spread at random."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.explain.fleet.need import KEPT, SPARE, fleet, replicas_at_random


def test_the_quotient_and_one_to_spare() -> None:
    found = fleet(5000, 60, gpus_each=2, price=3.5)
    assert found.replicas == 84 + 1
    assert found.gpus == 170
    assert found.per_hour == pytest.approx(595.0)
    assert found.per_stream_hour == pytest.approx(0.119)


@given(st.integers(1, 20_000), st.integers(1, 500))
def test_with_one_replica_down_every_stream_finds_a_place_and_none_is_idle(streams: int, per_replica: int) -> None:
    found = fleet(streams, per_replica, gpus_each=1, price=None)
    assert (found.replicas - SPARE) * per_replica >= streams
    assert (found.replicas - SPARE - 1) * per_replica < streams
    assert found.at_random is None or found.at_random >= found.replicas
    assert (found.per_hour, found.per_stream_hour) == (None, None)


@pytest.mark.parametrize(("streams", "per_replica"), [(200, 20), (1000, 60), (60, 3)])
def test_spread_at_random_no_replica_gets_more_than_it_holds(streams: int, per_replica: int) -> None:
    replicas = replicas_at_random(streams, per_replica)
    assert replicas is not None
    dice = np.random.default_rng(1)

    def kept(count: int) -> float:
        thrown = dice.multinomial(streams, [1 / count] * count, size=2000)
        return float((thrown.max(axis=1) <= per_replica).mean())

    assert kept(replicas) >= KEPT - 0.005
    assert kept(int(replicas * 0.8)) < KEPT  # the bound is not far too careful


def test_calls_that_fit_into_one_need_no_spreading() -> None:
    assert replicas_at_random(20, 20) == 1


def test_one_call_a_replica_cannot_be_kept_apart_by_chance() -> None:
    assert replicas_at_random(1000, 1) is None
