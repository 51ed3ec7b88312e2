from __future__ import annotations

import math
from itertools import pairwise

import pytest

from bench.errors import UsageError
from bench.load.open import OpenLoad, arrival_times
from bench.load.plan import Open

FIXED = Open(rate=10.0, arrivals="fixed", callers=3)
POISSON = Open(rate=50.0, arrivals="poisson", callers=3)


def test_fixed_distances_after_a_ramp_that_brings_half_its_length() -> None:
    times = list(arrival_times(FIXED, seed=1, ramp_s=4.0, length_s=10.0))
    ramp = [at for at in times if at < 4.0]
    assert len(ramp) in (19, 20)  # 10/s over 4 s, growing from 0: 20, the last of them at the ramp's very end
    assert [b - a for a, b in pairwise(times[len(ramp) :])] == pytest.approx([0.1] * (len(times) - len(ramp) - 1))
    assert [b - a for a, b in pairwise(ramp)] == sorted((b - a for a, b in pairwise(ramp)), reverse=True)
    assert max(times) < 10.0


def test_without_a_ramp_the_rate_is_there_at_once() -> None:
    assert list(arrival_times(FIXED, seed=1, ramp_s=0.0, length_s=0.45)) == pytest.approx([0.1, 0.2, 0.3, 0.4])


def test_poisson_arrivals_have_the_rate_and_are_spread_as_they_should() -> None:
    times = list(arrival_times(POISSON, seed=1, ramp_s=20.0, length_s=420.0))
    steady = [at for at in times if at >= 20.0]
    assert times == sorted(times)
    assert len(steady) == pytest.approx(20_000, abs=4 * math.sqrt(20_000))
    counts = [0] * 400
    for at in steady:
        counts[int(at - 20.0)] += 1
    mean = sum(counts) / len(counts)
    variance = sum((count - mean) ** 2 for count in counts) / len(counts)
    assert variance / mean == pytest.approx(1.0, abs=0.3)  # a Poisson count's variance is its mean


def test_the_seed_decides() -> None:
    def first(seed: int) -> float:
        return next(arrival_times(POISSON, seed=seed, ramp_s=0.0, length_s=100.0))

    assert first(1) == first(1) != first(2)


@pytest.mark.parametrize(
    "model",
    [
        Open(rate=0.0, arrivals="fixed", callers=1),
        Open(rate=-1.0, arrivals="fixed", callers=1),
        Open(rate=math.inf, arrivals="fixed", callers=1),
        Open(rate=1.0, arrivals="fixed", callers=0),
    ],
)
def test_no_load(model: Open) -> None:
    with pytest.raises(UsageError, match="open-loop"):
        OpenLoad(model)
