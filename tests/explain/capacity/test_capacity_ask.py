"""The questions of `just capacity`."""

import pytest

from bench.errors import UsageError
from bench.explain.capacity.ask import ERROR, UP_TO, questions
from bench.explain.search.question import Question
from bench.explain.slo.parse import parse_slo
from recipes.load import load_recipe

SLO = parse_slo("e2e:p95:1s")


def ask(ladder: str = "[{streams = 4}, {streams = 6}]", **changes: int | None) -> Question:
    options: dict[str, int | None] = {"lowest": None, "highest": None, "step": 1, "looks": 5, "most_points": 40}
    recipe = load_recipe("cpu", {"load.ladder": ladder})
    (asked,) = questions(recipe, [SLO], **(options | changes))  # type: ignore[arg-type]
    return asked


def test_several_limits_share_the_chance_of_being_wrong() -> None:
    recipe = load_recipe("cpu", {"load.ladder": "[{streams = 4}]"})
    limits = [SLO, parse_slo("e2e:p95:500ms")]
    both = questions(recipe, limits, lowest=None, highest=None, step=1, looks=5, most_points=40)
    assert [each.slo for each in both] == limits
    assert [each.error for each in both] == [ERROR / 2, ERROR / 2]
    assert ask().error == ERROR
    with pytest.raises(UsageError, match="e2e:p95:1s is there twice"):
        questions(recipe, [SLO, SLO], lowest=None, highest=None, step=1, looks=5, most_points=40)


def test_it_begins_where_the_ladder_does() -> None:
    asked = ask()
    assert list(asked.values) == list(range(1, 6 * UP_TO + 1))
    assert asked.setting(asked.start) == "4 streams"


def test_it_keeps_to_its_range() -> None:
    asked = ask(lowest=10, highest=40, step=10)
    assert list(asked.values) == [10, 20, 30, 40]
    assert asked.start == 0
    assert ask(highest=3).setting(ask(highest=3).start) == "3 streams"
    assert list(ask(lowest=7, highest=7).values) == [7]


def test_interruptions_of_the_ladder_are_kept() -> None:
    asked = ask("[{streams = 4, barge_in = {share = 0.2, after_s = [0.1, 0.3]}}]")
    assert asked.point(9).label == "10 streams, 20 % interrupted"


@pytest.mark.parametrize(
    ("changes", "because"),
    [
        ({"lowest": 9, "highest": 8}, "--from 9 is above --to 8"),
        ({"step": 50, "highest": 8}, "--step 50 is above --to 8"),
        ({"highest": 10_000_000}, "too many"),
        ({"ladder": "[{concurrent = 4}]"}, "has no streams"),
    ],
)
def test_what_cannot_be_asked(changes: dict[str, int], because: str) -> None:
    with pytest.raises(UsageError, match=because):
        ask(**changes)  # type: ignore[arg-type]
