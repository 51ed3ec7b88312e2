"""Block sizes that serve a workload better: what each gives, and that only those are shown that nothing beats."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import UsageError
from bench.explain.preflight.blocks import FINEST, Choice, blocks_of, front_of, pairs_of
from bench.explain.preflight.command import progress
from bench.explain.preflight.lasting import lasting_of
from bench.explain.preflight.plan import Basis
from bench.explain.preflight.prefix import MeanPrefill, prefills_of
from bench.workload.prefix_cache_rules import CacheRules
from tests.explain.preflight.planned import UNIT, basis, lines

FAST = "h200-fp8-fast-dummy"


def small_steps(target: str, tokens: int, *overrides: tuple[str, str]) -> Basis:
    """A target whose steps are so small that few blocks fit one."""
    sizes = ("engine.flags.compilation_config.cudagraph_capture_sizes", "[5]")
    largest = ("engine.flags.compilation_config.max_cudagraph_capture_size", "5")
    return basis(target, ("engine.flags.max_num_batched_tokens", str(tokens)), sizes, largest, *overrides)


@pytest.mark.parametrize(
    ("drafts", "size", "unit", "steps", "computed"),
    [
        (4, 2160, None, 1.0, 3520),
        (4, 2240, None, 1.0, 3280),
        (4, 2160, 60, 2.0, 1106),
        (4, 2800, 100, 1.76, 1374),
        (4, 2944, 128, 2.0, 993),
        pytest.param(4, 1088, 64, 2.5, 1928, id="a BF16 cache (evidence/h200/attribution-20261130)"),
        pytest.param(4, 1280, None, 1.2, 2320, id="states in BF16 (evidence/h200/attribution-20261130)"),
        (0, 2992, None, 1.0, 1024),
        (0, 2096, 131, 2.0, 1081),
        (0, 3600, 1800, 1.0, 1000),
    ],
)
def test_what_blocks_give_the_articles_workload(
    drafts: int, size: int, unit: int | None, steps: float, computed: int
) -> None:
    rules = CacheRules(block_size=size, hybrid=True, chunk_tokens=4100, draft_tokens=drafts, match_unit=unit)
    mean = MeanPrefill.of(prefills_of(basis(FAST).recipe.workload.model_dump_json(), rules), rules)
    assert mean.computed == pytest.approx(computed, abs=0.5)
    assert mean.steps == pytest.approx(steps, abs=0.06)


def test_pairs_that_give_wrong_answers_are_no_choice() -> None:
    """Rule 9: 7,440 to 9,920 is a block that many prompts of this workload end behind."""
    rules = CacheRules(block_size=2480, hybrid=True, chunk_tokens=4100, draft_tokens=4, match_unit=62)
    assert MeanPrefill.of(
        prefills_of(basis(FAST).recipe.workload.model_dump_json(), rules), rules
    ).misnaming == pytest.approx(0.15, abs=0.01)
    plan = small_steps(FAST, 2490, ("engine.flags.block_size", "2480"), ("engine.flags.prefix_match_unit", "62"))
    blocks = blocks_of(plan)
    assert blocks.current is not None
    assert blocks.misnaming > 0
    assert blocks.current not in blocks.front
    assert all(choice in blocks.front or choice is blocks.current for choice in blocks.shown)
    without = blocks_of(small_steps(FAST, 2490, ("engine.flags.speculative_config", "{}")))
    assert without.misnaming == 0  # without drafts every such step ends on the boundary


class TestFront:
    choices = st.lists(
        st.builds(
            Choice,
            block_size=st.integers(2, 4).map(lambda blocks: 16 * blocks),
            match_unit=st.sampled_from([None, 4, 8, 16]),
            computed=st.integers(1, 6).map(float),
            steps=st.integers(1, 6).map(float),
            sequences=st.just(1.0),
            hits=st.just(0.5),
        ),
        max_size=30,
        unique_by=lambda choice: (choice.block_size, choice.match_unit),
    )

    @given(choices)
    def test_nobody_in_it_is_beaten_and_everybody_else_is(self, choices: list[Choice]) -> None:
        front = front_of(choices)
        for choice in choices:
            assert any(other.beats(choice) for other in choices) == (choice not in front)
        assert set(front) <= set(choices)

    @given(choices)
    def test_more_steps_save_tokens(self, choices: list[Choice]) -> None:
        front = front_of(choices)
        assert all(a.steps < b.steps and a.computed > b.computed for a, b in pairwise(front))

    def test_of_equals_the_smaller_block_and_the_larger_unit_remain(self) -> None:
        small = Choice(block_size=32, match_unit=16, computed=1.0, steps=1.0, sequences=1.0, hits=0.5)
        assert front_of([replace(small, block_size=64), replace(small, match_unit=4), small]) == (small,)


@given(first=st.integers(16, 5000), count=st.integers(1, 3))
def test_units_divide_their_block_into_2_to_64_parts(first: int, count: int) -> None:
    pairs = list(pairs_of(range(first, first + count), units=True))
    assert len(pairs) == len(set(pairs))
    for size in range(first, first + count):
        units = {unit for other, unit in pairs if other == size}
        parts = {size // unit for unit in units if unit}
        assert units >= {None}
        assert parts == {part for part in range(2, FINEST + 1) if size % part == 0}


def test_a_search_finds_blocks_that_leave_less_in_no_more_steps() -> None:
    plan = basis("h200-fp8-dummy", ("engine.version", "0.25.1"))
    blocks = blocks_of(plan)
    (best,) = blocks.front
    assert (best.block_size, best.match_unit, best.computed, best.steps) == (2240, None, 3280, 1.0)
    # That release has no match units.
    assert blocks.tried == len(blocks.sizes) == (4320 - 2160) / 16 + 1
    assert blocks.current is not None
    assert blocks.current.beats(best) is False
    assert best.beats(blocks.current)
    assert [choice.block_size for choice in blocks.shown] == [2240, 2160]


def test_what_the_recipe_has_is_marked_at_its_place() -> None:
    plan = small_steps(FAST, 2250, UNIT)
    asked: list[tuple[int, int]] = []
    blocks = blocks_of(plan, lambda done, total: asked.append((done, total)))
    assert blocks.sizes == range(2160, 2251, 16)
    assert blocks.tried == len(list(pairs_of(blocks.sizes, units=True)))
    assert asked == [(done, blocks.tried) for done in range(blocks.tried)]
    current = blocks.current
    assert current is not None
    assert [choice for choice in blocks.shown if choice.current] == [current]
    assert list(blocks.shown) == sorted(blocks.shown, key=lambda choice: choice.order)
    assert (current.block_size, current.match_unit) == (2160, 60)
    assert (current.computed, current.steps) == (plan.prefix.computed, plan.prefix.steps)
    assert current.sequences == lines(plan)["kv.sequences"].value
    assert any(choice.beats(current) for choice in blocks.front)
    assert all(choice.sequences < current.sequences for choice in blocks.front if choice.block_size > 2160)


def test_the_smallest_block_is_the_engines_and_not_the_recipes() -> None:
    blocks = blocks_of(small_steps("h200-fp8-no-mtp-dummy", 2992, ("engine.version", "0.25.1")))
    assert (blocks.smallest, blocks.sizes[-1]) == (2096, 2992)
    assert blocks.current == blocks.front[0]
    assert (blocks.current.block_size, blocks.current.steps) == (2992, 1.0)


def test_no_block_is_more_than_twice_the_smallest() -> None:
    blocks = blocks_of(basis("cpu"))
    assert blocks.sizes == range(256, 513, 128)
    assert blocks.tried == 26


def test_a_recipe_whose_own_unit_cannot_be_gets_others() -> None:
    blocks = blocks_of(small_steps("h200-fp8", 2160, ("engine.flags.prefix_match_unit", "64")))
    assert blocks.current is None
    assert blocks.shown == blocks.front != ()


def test_a_cpu_engine_without_block_size_is_tried_beside_one_that_has_it() -> None:
    """Rule 6: the same blocks, and other stops."""
    recipe = basis("cpu")
    flags = {name: value for name, value in recipe.recipe.engine.flags.items() if name != "block_size"}
    engine = recipe.recipe.engine.model_copy(update={"flags": flags})
    plan = replace(recipe, recipe=recipe.recipe.model_copy(update={"engine": engine}))
    blocks = blocks_of(plan)
    assert blocks.tried == 27
    assert blocks.current is not None
    assert blocks.current.block_size == 256
    assert any(choice.block_size == 256 and choice.beats(blocks.current) for choice in blocks.front)
    own = lasting_of(plan)
    assert own is not None
    assert blocks.current.lasting == own.rate  # by its own stops, too
    assert own.rate < min(choice.lasting or 0.0 for choice in blocks.front if choice.block_size == 256)


def test_blocks_that_no_step_holds_are_not_tried() -> None:
    blocks = blocks_of(basis("cpu", ("engine.flags.max_num_batched_tokens", "200")))
    assert (blocks.tried, blocks.shown, blocks.smallest) == (0, (), 256)


def test_without_a_cache_there_is_nothing_to_try() -> None:
    with pytest.raises(UsageError, match="cpu-mtp caches no prefixes"):
        blocks_of(basis("cpu-mtp"))


def test_a_long_search_says_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter((0.0, 1.9, 2.0, 2.0, 3.9, 4.1, 4.1))
    say = progress(lambda: next(times))
    for done in (10, 20, 30, 1234):
        say(done, 2000)
    assert capsys.readouterr().err.splitlines() == [
        "cache blocks: 20 of 2,000 pairs tried",
        "cache blocks: 1,234 of 2,000 pairs tried",
    ]
