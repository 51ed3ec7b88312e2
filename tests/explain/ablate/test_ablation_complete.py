"""Which part of a table of measurements is compared."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bench.explain.ablate.complete import complete_part

NAMES = ("full", "a", "b", "c")
CELLS = st.dictionaries(st.tuples(st.sampled_from(NAMES), st.integers(1, 4)), st.just("not run yet"))


def test_everything_is_there() -> None:
    part = complete_part(NAMES, 2, {}, may_drop=True)
    assert (part.names, part.blocks, part.left_out) == (NAMES, (1, 2), ())


def test_an_engine_that_died_takes_only_itself_along() -> None:
    missing = {("b", 2): "cut off by its engine's death", ("b", 3): "not run yet"}
    part = complete_part(NAMES, 3, missing, may_drop=True)
    assert part.names == ("full", "a", "c")
    assert part.blocks == (1, 2, 3)
    assert part.left_out == ("b: in block 2 it is cut off by its engine's death",)


def test_a_run_that_was_disturbed_costs_its_block() -> None:
    missing = {(name, 4): "invalid" for name in NAMES}
    part = complete_part(NAMES, 4, missing, may_drop=True)
    assert (part.names, part.blocks) == (NAMES, (1, 2, 3))
    assert part.left_out == ("block 4: full is invalid",)


def test_where_engines_are_started_anew_no_configuration_is_left_out() -> None:
    part = complete_part(NAMES, 3, {("b", 2): "invalid", ("b", 3): "invalid"}, may_drop=False)
    assert (part.names, part.blocks) == (NAMES, (1,))


@given(CELLS, st.booleans())
def test_the_part_is_complete_holds_the_reference_and_says_what_it_lacks(
    missing: dict[tuple[str, int], str], may_drop: bool
) -> None:
    part = complete_part(NAMES, 4, missing, may_drop=may_drop)
    assert not [cell for cell in missing if cell[0] in part.names and cell[1] in part.blocks]
    assert part.names[0] == "full"
    assert len(part.names) >= 2
    assert bool(part.left_out) == bool(missing)
