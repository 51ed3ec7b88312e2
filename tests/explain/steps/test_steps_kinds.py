"""Kinds of gaps: mixtures whose classes are known come apart as they were put together, and one hill stays one."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.explain.steps.kinds import OCCASIONS, kinds_of, occasions
from bench.explain.steps.split import otsu
from tests.explain.steps.schedules import gaps_of, served

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

seeds = st.integers(0, 2**32 - 1)


def apart(gaps: Floats) -> Floats:
    """Moments for gaps that came one after another, so that each is an occasion of its own."""
    return np.concatenate(([0.0], np.cumsum(gaps)[:-1]))


@settings(deadline=None)
@given(
    seed=seeds,
    n=st.integers(1000, 4000),
    share=st.floats(0.05, 0.6),
    ratio=st.floats(5, 40),
    spread=st.floats(0.02, 0.2),
)
def test_two_known_kinds_come_apart(seed: int, n: int, share: float, ratio: float, spread: float) -> None:
    """At most 1 % of the gaps end up in the other kind: the tails of the two meet beyond 4 standard deviations."""
    dice = np.random.default_rng(seed)
    truly_long = dice.random(n) < share
    gaps = np.where(truly_long, ratio, 1.0) * dice.lognormal(0, spread, n)
    kinds = kinds_of(gaps, apart(gaps))
    assert kinds.one is None, kinds
    assert (kinds.long(gaps) | kinds.rare(gaps)).sum() == pytest.approx(truly_long.sum(), abs=0.01 * n)
    assert (kinds.short(gaps) & truly_long).sum() <= 0.01 * n
    assert not kinds.together(gaps).any()


ONE_HILL: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "normal": lambda dice, n: dice.normal(10, 1, n),
    "lognormal": lambda dice, n: dice.lognormal(0, 1, n),
    "exponential": lambda dice, n: dice.exponential(1, n),
    "uniform": lambda dice, n: dice.uniform(1, 10, n),
    "log-uniform": lambda dice, n: np.exp(dice.uniform(0, 5, n)),
    "gamma": lambda dice, n: dice.gamma(2, 1, n),
    "Pareto": lambda dice, n: dice.pareto(1.2, n) + 1,
    "narrow hill, long tail": lambda dice, n: np.where(
        dice.random(n) < 0.9, dice.normal(10, 0.3, n), 10 + dice.exponential(30, n)
    ),
}


@pytest.mark.parametrize("n", [40, 200, 1000, 10_000])
@pytest.mark.parametrize("family", ONE_HILL)
def test_one_hill_is_not_split(family: str, n: int) -> None:
    """Of 50 samples of any shape and size at most 2 are taken for two kinds; the samples are always the same ones."""
    dice = np.random.default_rng(n)
    samples = [ONE_HILL[family](dice, n) for _ in range(50)]
    split = [kinds for gaps in samples if (kinds := kinds_of(gaps, apart(gaps))).cut_s is not None]
    assert len(split) <= 2, split


def test_hills_of_which_one_is_not_twice_the_other_are_one_kind() -> None:
    dice = np.random.default_rng(1)
    gaps = np.where(dice.random(2000) < 0.5, 0.010, 0.016) * dice.lognormal(0, 0.02, 2000)
    kinds = kinds_of(gaps, apart(gaps))
    assert (kinds.cut_s, kinds.one) == (None, "too alike")
    assert kinds.short(gaps).all()


@settings(deadline=None, max_examples=30)
@given(seed=seeds, scale=st.floats(1e-6, 1e6), every=st.sampled_from([0, 3, 7, 40]))
def test_no_unit_matters(seed: int, scale: float, every: int) -> None:
    gaps, begins = gaps_of(served(seed=seed, every=every).records)
    once, again = kinds_of(gaps, begins), kinds_of(gaps * scale, begins * scale)
    assert once.one == again.one
    for name in ("short", "long", "rare", "together"):
        assert getattr(once, name)(gaps).sum() == pytest.approx(getattr(again, name)(gaps * scale).sum(), abs=2)


def test_every_gap_is_of_one_kind() -> None:
    gaps, begins = gaps_of(served(stall=(500, 9.0)).records)
    gaps = np.concatenate((gaps, np.zeros(30)))
    kinds = kinds_of(gaps, np.concatenate((begins, np.full(30, 20.0))))
    of = np.stack([which(gaps) for which in (kinds.together, kinds.short, kinds.long, kinds.rare)])
    assert (of.sum(axis=0) == 1).all()


@pytest.mark.parametrize("in_flight", [1, 8, 40])
def test_a_standstill_is_rare_however_many_waited_through_it(in_flight: int) -> None:
    made = served(in_flight=in_flight, stall=(500, 9.2))
    gaps, begins = gaps_of(made.records)
    kinds = kinds_of(gaps, begins)
    stood = gaps > 9.0
    assert stood.sum() >= min(1, in_flight - 1)
    assert (kinds.rare(gaps) == stood).all()
    assert kinds.one is None
    assert kinds.long(gaps).sum() == made.long_gaps - (stood.sum() if made.long[500] else 0)


def test_a_smooth_server_that_stood_still_has_one_kind_and_rare_gaps() -> None:
    gaps, begins = gaps_of(served(every=0, stall=(500, 9.2)).records)
    kinds = kinds_of(gaps, begins)
    assert kinds.cut_s is None
    assert kinds.rare(gaps).sum() == (gaps > 9.0).sum() > 0
    assert gaps[kinds.short(gaps)].max() < 2 * np.median(gaps)


@pytest.mark.parametrize("gap_s", [0.0, 20e-6])
@pytest.mark.parametrize("share", [0.01, 0.3, 0.7])
def test_chunks_that_come_together_are_no_kind(share: float, gap_s: float) -> None:
    """As when a server sends each token of a verified draft by itself: no time passes between them."""
    made = served(in_flight=16)
    gaps, begins = gaps_of(made.records)
    dice = np.random.default_rng(3)
    more = round(len(gaps) * share / (1 - share))
    near = np.full(more, gap_s) * dice.lognormal(0, 0.3, more)
    kinds = kinds_of(np.concatenate((gaps, near)), np.concatenate((begins, dice.choice(begins, more))))
    assert kinds.one is None
    assert kinds.together(near).all()
    assert not kinds.together(gaps).any()
    assert kinds.long(gaps).sum() == made.long_gaps


def test_short_gaps_that_hold_little_of_the_time_stay_a_kind() -> None:
    """As on a server so busy that nearly every step has a prompt."""
    dice = np.random.default_rng(4)
    gaps = np.concatenate((0.019 * dice.lognormal(0, 0.1, 100), 0.1 * dice.lognormal(0, 0.1, 3000)))
    kinds = kinds_of(gaps, apart(gaps))
    assert gaps[:100].sum() < 0.01 * gaps.sum()
    assert (kinds.short(gaps).sum(), kinds.long(gaps).sum()) == (100, 3000)


def test_a_few_catching_up_do_not_hide_the_kinds() -> None:
    """Gaps that are shorter than steps, and not by so much that they are none."""
    made = served(in_flight=16)
    gaps, begins = gaps_of(made.records)
    near = np.geomspace(0.0002, 0.002, 60)
    kinds = kinds_of(np.concatenate((gaps, near)), np.concatenate((begins, begins[:60])))
    assert kinds.one is None
    assert kinds.long(gaps).sum() == made.long_gaps


def test_few_gaps_are_not_told_apart() -> None:
    gaps = np.array([0.01] * 10 + [0.08] * 10)
    assert kinds_of(gaps, apart(gaps)).one == "too few"
    for nothing in (np.empty(0), np.zeros(100)):
        kinds = kinds_of(nothing, nothing)
        assert (kinds.cut_s, kinds.rare_s, kinds.one) == (None, inf, "too few")
        assert not kinds.short(nothing).any()


@pytest.mark.parametrize("gaps", [[1e-320] * 50 + [1e7] * 50, [5e-324] * 99, [0.01] * 99, [1e-9] * 50 + [1e7] * 50])
def test_no_gaps_are_too_odd_to_be_told_apart(gaps: list[float]) -> None:
    odd = np.array(gaps)
    kinds = kinds_of(odd, apart(odd))
    of = np.stack([which(odd) for which in (kinds.together, kinds.short, kinds.long, kinds.rare)])
    assert (of.sum(axis=0) == 1).all()


def test_long_gaps_of_a_few_moments_are_no_kind() -> None:
    """Nine steps with a prompt: many gaps, but of what nine steps took no percentile says anything."""
    gaps, begins = gaps_of(served(every=130, in_flight=16, jitter=0.05).records)
    kinds = kinds_of(gaps, begins)
    assert kinds.cut_s is None
    assert kinds.rare(gaps).sum() == (gaps > 0.05).sum() > 16


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0.01, 3)), max_size=12))
def test_occasions_are_the_most_gaps_that_do_not_overlap(made: list[tuple[float, float]]) -> None:
    begins, gaps = np.array([m[0] for m in made]), np.array([m[1] for m in made])
    every = np.ones(len(made), dtype=np.bool_)
    found = occasions(every, gaps, begins)

    def most(after: float) -> int:
        later = [begin + gap for begin, gap in zip(begins, gaps, strict=True) if begin >= after]
        return max((1 + most(end) for end in later), default=0)

    assert found == min(most(-1.0), OCCASIONS)


@given(st.lists(st.floats(-5, 5).map(lambda value: round(value, 3)), min_size=2, max_size=60))
def test_otsu_finds_the_best_of_all_splits(values: list[float]) -> None:
    ordered = np.sort(np.array(values))

    def between(k: int) -> float:
        return float(k * (len(ordered) - k) * (ordered[k:].mean() - ordered[:k].mean()) ** 2)

    best = max(between(k) for k in range(1, len(ordered)))
    assert between(otsu(ordered)) == pytest.approx(best, rel=1e-9, abs=1e-9)


def test_otsu_tries_all_splits_of_many_values(monkeypatch: pytest.MonkeyPatch) -> None:
    ordered = np.sort(np.random.default_rng(5).normal(size=1000))
    whole = otsu(ordered)
    monkeypatch.setattr("bench.explain.steps.split._AT_ONCE", 7)
    assert otsu(ordered) == whole
