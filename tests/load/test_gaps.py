from __future__ import annotations

import math
from itertools import islice
from statistics import fmean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.load.gaps import gaps, most_turns, opening
from recipes.schema import TurnGap

EXPONENTIAL = TurnGap(distribution="exponential", mean_s=4.0)
LOGNORMAL = TurnGap(distribution="lognormal", mean_s=4.0, sigma=0.5)
FIXED = TurnGap(distribution="fixed", mean_s=4.0)
N = 20_000


def draw(gap: TurnGap, n: int = N, *, seed: int = 1, stream: int = 0) -> list[float]:
    return list(islice(gaps(gap, seed=seed, stream=stream), n))


@pytest.mark.parametrize("gap", [EXPONENTIAL, LOGNORMAL, FIXED])
def test_the_mean_is_the_one_asked_for(gap: TurnGap) -> None:
    sample = draw(gap)
    assert min(sample) >= 0
    assert fmean(sample) == pytest.approx(4.0, abs=4 * pstdev(sample) / math.sqrt(N) + 1e-12)


def test_the_shapes() -> None:
    assert set(draw(FIXED, 100)) == {4.0}
    assert pstdev(draw(EXPONENTIAL)) == pytest.approx(4.0, rel=0.05)  # its deviation is its mean
    logarithms = [math.log(value) for value in draw(LOGNORMAL)]
    assert pstdev(logarithms) == pytest.approx(0.5, rel=0.03)
    assert fmean(logarithms) == pytest.approx(math.log(4.0) - 0.125, abs=0.02)


def test_each_stream_and_seed_has_its_own_and_the_same_again() -> None:
    assert draw(EXPONENTIAL, 5) == draw(EXPONENTIAL, 5)
    assert draw(EXPONENTIAL, 5) != draw(EXPONENTIAL, 5, stream=1)
    assert draw(EXPONENTIAL, 5) != draw(EXPONENTIAL, 5, seed=2)


def test_streams_open_evenly_and_the_first_at_once() -> None:
    assert [opening(stream, 4, 2.0) for stream in range(4)] == [0.0, 0.5, 1.0, 1.5]


@given(stream=st.integers(0, 1000), open_s=st.floats(0, 100))
def test_no_stream_needs_more_turns_than_with_instant_replies(stream: int, open_s: float) -> None:
    count = most_turns(EXPONENTIAL, seed=1, stream=stream, open_s=open_s)
    silences = draw(EXPONENTIAL, count, stream=stream)
    assert sum(silences[: count - 1]) < open_s or count == 1
    assert sum(silences) >= open_s
