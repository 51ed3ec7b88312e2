"""Effects against known laws: simulated ablations whose factors change the latency by known amounts."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Collection
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import UsageError
from bench.explain.ablate.effects import figure_effects
from bench.explain.ablate.factors import Factor
from bench.explain.ablate.outcome import FigureEffects, Interval
from bench.explain.ablate.plan import AblationPlan, Only, balanced, make_plan
from bench.seeds import generator
from tests.report.factories import make_recipe

Law = Callable[[Collection[str]], float]
"""p95 in seconds from the factors that are on."""

ABLATIONS = 100
ALONE = {"one": 0.8, "two": 0.9, "three": 1.0}


def independent(on: Collection[str]) -> float:
    return math.prod([0.6, *(ALONE[name] for name in on)])


def interacting(on: Collection[str]) -> float:
    """Each of two factors brings something only without the other: 20 % either way, and 20 % together."""
    return 0.6 * (0.8 if {"one", "two"} & set(on) else 1.0) * ALONE["three"]


def ratio(interval: Interval | None) -> float:
    assert interval is not None
    return interval.ratio


def plan_of(
    *names: str, blocks: int = 3, seed: int = 1, only: Only | None = None, at_once: int | None = None
) -> AblationPlan:
    factors = tuple(Factor(slug=name, name=name, keys=(f"engine.env.{name.upper()}",)) for name in names)
    target = make_recipe(engine={"env": {name.upper(): "1" for name in names}})
    return make_plan(make_recipe(), target, factors, blocks=blocks, seed=seed, only=only, at_once=at_once)


def simulated(plan: AblationPlan, law: Law, *, seed: int) -> FigureEffects:
    """Every engine start is off by 3 %, on a machine that becomes 1 % slower with each start."""
    dice = np.random.default_rng(seed)
    found: dict[str, list[float]] = {each.name: [] for each in plan.configurations}
    on = {each.name: each.factors for each in plan.configurations}
    for number, planned in enumerate(plan.order):
        chance = math.exp(0.03 * dice.normal() + 0.01 * number)
        found[planned.configuration].append(law(on[planned.configuration]) * chance)
    return figure_effects(plan, "40 streams", 0.95, found)


def inside(interval: Interval | None, truth: float) -> bool:
    assert interval is not None
    assert interval.low is not None
    assert interval.high is not None
    return interval.low <= truth <= interval.high


@pytest.mark.parametrize("law", [independent, interacting])
def test_the_true_effects_are_in_their_intervals(law: Law) -> None:
    names = ("one", "two", "three")
    right = {(name, place): 0 for name in names for place in ("first", "last")}
    all_right = 0
    for seed in range(ABLATIONS):
        effects = simulated(plan_of(*names, seed=seed), law, seed=seed)
        for each in effects.factors:
            others = [name for name in names if name != each.factor]
            first = inside(each.added_first, law([each.factor]) / law([]))
            last = inside(each.removed_last, law(names) / law(others))
            right[each.factor, "first"] += first
            right[each.factor, "last"] += last
        all_right += all(
            inside(each.added_first, law([each.factor]) / law([]))
            and inside(each.removed_last, law(names) / law([name for name in names if name != each.factor]))
            for each in effects.factors
        )
    assert min(right.values()) >= 95
    assert all_right >= 95  # the stated confidence is of all of them together


def test_factors_that_interact_get_no_share() -> None:
    found = [simulated(plan_of("one", "two", "three", seed=seed), interacting, seed=seed) for seed in range(40)]
    one = [effects.factors[0] for effects in found]
    assert sum(each.interacts is True and each.share is None for each in one) >= 38
    assert "no single share" in next(each for each in one if each.interacts).says
    three = [effects.factors[2] for effects in found]
    assert sum(each.interacts is True for each in three) <= 5  # 1 in 20


def test_factors_that_do_not_interact_get_the_share_that_is_theirs() -> None:
    found = [simulated(plan_of("one", "two", "three", seed=seed), independent, seed=seed) for seed in range(40)]
    shares = [each.share for effects in found for each in effects.factors if not each.interacts]
    assert len(shares) >= 106  # 1 in 20 is withheld for nothing
    one = [effects.factors[0].share for effects in found if effects.factors[0].share is not None]
    assert sum(inside(share, 0.8) for share in one) >= len(one) - 2
    assert all(inside(effects.total, 0.72) for effects in found[:10] if effects.total is not None)


def test_two_factors_without_noise_have_shapleys_values() -> None:
    law: Law = {(): 1.0, ("one",): 0.8, ("two",): 0.7, ("one", "two"): 0.5}.__getitem__  # type: ignore[assignment]
    plan = plan_of("one", "two")
    seconds = {each.name: [law(each.factors)] * 3 for each in plan.configurations}
    effects = figure_effects(plan, "40 streams", 0.95, seconds)
    orders = [math.log(law(("one",)) / law(())), math.log(law(("one", "two")) / law(("two",)))]
    first = effects.factors[0]
    assert first.interacts  # no noise: any difference is more than chance
    assert ratio(first.added_first) == pytest.approx(0.8)
    assert ratio(first.removed_last) == pytest.approx(0.5 / 0.7)
    assert math.sqrt(ratio(first.added_first) * ratio(first.removed_last)) == pytest.approx(math.exp(np.mean(orders)))


def test_one_factor_is_the_whole() -> None:
    effects = simulated(plan_of("one"), independent, seed=4)
    (only,) = effects.factors
    assert only.share == only.added_first == only.removed_last
    assert effects.total == only.added_first


def test_of_one_factor_nothing_is_shared_out() -> None:
    # All its intervals are one: 95 % of it alone, t = 4.303 with two degrees of freedom.
    effects = figure_effects(plan_of("one"), "p", 0.95, {"base": [0.50, 0.52, 0.51], "full": [0.40, 0.43, 0.40]})
    total = effects.total
    assert total is not None
    assert total.high is not None
    changes = np.log([0.40 / 0.50, 0.43 / 0.52, 0.40 / 0.51])
    assert math.log(total.high / total.ratio) == pytest.approx(4.303 * changes.std(ddof=1) / math.sqrt(3), rel=1e-3)


def test_one_block_gives_effects_without_intervals_and_no_share() -> None:
    effects = simulated(plan_of("one", "two", blocks=1), independent, seed=5)
    for each in effects.factors:
        assert each.added_first is not None
        assert (each.added_first.low, each.share, each.interacts) == (None, None, None)
        assert "one block only" in each.says


def simulated_in_groups(plan: AblationPlan, law: Law, *, seed: int) -> FigureEffects:
    """As above, and every later group on a machine that has become 30 % slower: groups must not be mixed."""
    dice = np.random.default_rng(seed)
    on = {each.name: each.factors for each in plan.configurations}
    found: dict[int, dict[str, list[float]]] = {group: {} for group in plan.groups}
    for planned in plan.order:
        chance = math.exp(0.03 * dice.normal() + 0.3 * planned.group)
        found[planned.group].setdefault(planned.configuration, []).append(law(on[planned.configuration]) * chance)
    return figure_effects(plan, "40 streams", 0.95, *found.values())


@pytest.mark.parametrize("only", ["added", "removed"])
def test_in_groups_each_effect_is_of_its_own_group(only: Only) -> None:
    plan = plan_of("one", "two", "three", blocks=5, only=only, at_once=2)
    assert [len(names) for names in plan.groups.values()] == [2, 2, 2]
    right = 0
    for seed in range(ABLATIONS):
        effects = simulated_in_groups(plan, interacting, seed=seed)
        assert effects.total is None
        sides = [each.added_first if only == "added" else each.removed_last for each in effects.factors]
        truths = {"added": (0.8, 0.8, 1.0), "removed": (1.0, 1.0, 1.0)}[only]
        right += all(inside(side, truth) for side, truth in zip(sides, truths, strict=True))
        for each in effects.factors:
            other = each.removed_last if only == "added" else each.added_first
            assert (other, each.share, each.interacts, each.interaction) == (None, None, None, None)
            assert "was not measured" in each.says
    assert right >= 90  # of one hundred, where 95 are expected


def test_a_configuration_that_is_left_out_takes_its_own_effects_along() -> None:
    plan = plan_of("one", "two", only="removed")
    figures = {"full": [0.4, 0.41], "without-one": [0.5, 0.51]}
    one, two = figure_effects(plan, "p", 0.95, figures).factors
    assert ratio(one.removed_last) == pytest.approx(0.8, abs=0.01)
    assert (two.removed_last, two.says) == (None, "left out: nothing is known of it")


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_a_figure_that_a_run_does_not_have_gives_no_effects(bad: float) -> None:
    plan = plan_of("one")
    assert "too few requests" in figure_effects(plan, "p", 0.95, {"base": [0.5, bad], "full": [0.4, 0.4]}).none
    assert figure_effects(plan, "p", 0.95, {"base": [], "full": []}).none == "no complete block"


@pytest.mark.parametrize(("count", "expected"), [(1, 2), (2, 4), (3, 8), (4, 10)])
def test_every_block_holds_every_configuration_once_in_its_own_order(count: int, expected: int) -> None:
    plan = plan_of(*("one", "two", "three", "four")[:count], blocks=20)
    orders = []
    for block in range(1, 21):
        order = [each.configuration for each in plan.order if each.block == block]
        assert sorted(order) == sorted(each.name for each in plan.configurations)
        assert len(order) == expected
        orders.append(tuple(order))
    assert len(set(orders)) > 1
    assert plan.order == plan_of(*("one", "two", "three", "four")[:count], blocks=20).order
    assert [each.block for each in plan.order] == sorted(each.block for each in plan.order)


@given(st.integers(2, 9), st.integers(1, 30), st.integers(0, 2**32))
def test_each_has_each_place_as_often_as_any_other(count: int, blocks: int, seed: int) -> None:
    """Three shuffles of three names put the same one first in every block, once in nine tries."""
    names = [f"n{number}" for number in range(count)]
    orders = list(itertools.islice(balanced(names, generator("test", seed)), blocks))
    assert all(sorted(order) == names for order in orders)
    for place in range(count):
        there = Counter(order[place] for order in orders)
        assert max(there.values()) - min(there[name] for name in names) <= 1


def test_what_comes_before_what_changes() -> None:
    before = Counter(
        pair for order in itertools.islice(balanced(["a", "b", "c"], generator("test")), 60) for pair in pairwise(order)
    )
    assert len(before) == 6
    assert min(before.values()) >= 10


def test_the_order_does_not_favour_a_configuration() -> None:
    firsts = [plan_of("one", seed=seed, blocks=1).order[0].configuration for seed in range(200)]
    assert 70 < firsts.count("base") < 130
    assert set(itertools.chain(firsts)) == {"base", "full"}


@pytest.mark.parametrize(
    ("only", "names"),
    [("added", ["base", "with-one", "with-two"]), ("removed", ["full", "without-one", "without-two"])],
)
def test_one_direction_needs_one_configuration_more_than_factors(only: Only, names: list[str]) -> None:
    plan = plan_of("one", "two", only=only)
    assert [each.name for each in plan.configurations] == names
    assert plan.reference == names[0]
    assert plan_of("one", only="removed").removed("one") == ("without-one", "full")


def test_groups_hold_the_reference_and_everything_once() -> None:
    plan = plan_of("one", "two", "three", "four", only="removed", at_once=3, blocks=2)
    assert list(plan.groups) == [1, 2]
    assert all(names[0] == "full" and len(names) == 3 for names in plan.groups.values())
    others = [name for names in plan.groups.values() for name in names[1:]]
    assert sorted(others) == ["without-four", "without-one", "without-three", "without-two"]
    assert [each.group for each in plan.order] == [1] * 6 + [2] * 6  # a group is over before the next one starts
    assert (plan.starts, len(plan.order)) == (6, 12)


def test_both_directions_cannot_be_cut_into_groups() -> None:
    with pytest.raises(UsageError, match="8 configurations have to run beside each other") as refused:
        plan_of("one", "two", "three", at_once=3)
    assert "--only removed" in refused.value.remedy
    assert len(plan_of("one", "two", at_once=4).groups) == 1
