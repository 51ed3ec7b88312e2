"""`--vary`: which assumption over which values, and what it says to what it cannot vary."""

from itertools import pairwise

import pytest

from bench.errors import UsageError
from bench.explain.frontier.vary import TURN_GAP, parse_vary
from recipes.load import load_recipe
from recipes.schema import Recipe


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    return load_recipe("h200-fp8")


@pytest.mark.parametrize("name", [TURN_GAP, "workload.turn_gap", "load.turn_gap", "turn_gap"])
def test_the_turn_gap_has_several_names_and_needs_no_other_start(recipe: Recipe, name: str) -> None:
    vary = parse_vary(f"{name}=2..16", recipe, values=4)
    assert vary.key == TURN_GAP
    assert vary.values == (2.0, 4.0, 8.0, 16.0)
    assert not vary.needs_a_start


def test_without_a_range_it_lies_around_the_recipe(recipe: Recipe) -> None:
    vary = parse_vary("workload.turn_gap", recipe, values=17)
    assert (vary.values[0], vary.values[-1], len(vary.values)) == (1.0, 16.0, 17)
    assert 4.0 in vary.values
    ratios = [b / a for a, b in pairwise(vary.values)]
    assert max(ratios) / min(ratios) < 1.02


@pytest.mark.parametrize("key", ["workload.output_tokens", "engine.flags.max_num_seqs", "load.ramp_s"])
def test_what_else_has_a_number_needs_another_start(recipe: Recipe, key: str) -> None:
    vary = parse_vary(f"{key}=50..200", recipe, values=5)
    assert vary.needs_a_start
    assert vary.whole == (key != "load.ramp_s")
    assert vary.values == pytest.approx((50, 71, 100, 141, 200), rel=0.005)


def test_whole_numbers_that_round_to_the_same_are_one(recipe: Recipe) -> None:
    assert parse_vary("workload.output_tokens=1..4", recipe, values=30).values == (1, 2, 3, 4)


@pytest.mark.parametrize(
    ("text", "because", "remedy"),
    [
        ("load.turn_gap.mean=2..16", "has no load.turn_gap.mean", "Did you mean load.turn_gap.mean_s?"),
        ("nonsense", "has no nonsense", "Numbers that can be varied"),
        ("load.turn_gap.distribution=1..2", "is 'exponential', which is no number", "Numbers that can be varied"),
        ("hardware.memory_gib=1..2", "has no hardware.memory_gib", "Numbers that can be varied"),
        ("turn_gap=16..2", "this is 16..2", "=2..16"),
        ("turn_gap=0..2", "begin above 0", "=2..16"),
        ("turn_gap=2..2", "end above its beginning", "=2..16"),
        ("turn_gap=2-16", "is no range", "=2..16"),
        ("turn_gap=2..x", "'x' is no number", "=2..16"),
        ("turn_gap=2..inf", "'inf' is no number", "=2..16"),
        ("turn_gap=", "is no range", "=2..16"),
    ],
)
def test_what_is_wrong_is_named(recipe: Recipe, text: str, because: str, remedy: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_vary(text, recipe, values=9)
    assert because in refused.value.message
    assert remedy in refused.value.remedy
