"""The questions of a frontier: one for each claim that is about streams of the target, or one for a limit."""

import pytest

from bench.errors import UsageError
from bench.explain.frontier.ask import questions
from bench.explain.slo.parse import parse_slo
from recipes.load import load_recipe
from recipes.schema import Point, Recipe

GAPS = (2.0, 4.0, 8.0)


def ask(recipe: Recipe, **changes: object) -> list[tuple[str, float, Point, str | None]]:
    options: dict[str, object] = {"slo": None, "streams": None, "claim_ids": (), "looks": 5, "most_points": 40}
    asked = questions(recipe, GAPS, **(options | changes))  # type: ignore[arg-type]
    assert all(question.values == (8.0, 4.0, 2.0) and question.start == 1 for question in asked)
    return [(each.slo.says, each.slo.share, each.base, None if each.claim is None else each.claim.id) for each in asked]


def test_every_claim_is_asked_with_its_tolerance() -> None:
    asked = ask(load_recipe("b200-nvfp4"))
    assert ("p95 of E2E at most 525 ms", 0.95, Point(streams=40)) in [each[:3] for each in asked]
    assert len({claim for *_, claim in asked}) == len(asked)


def test_only_those_that_are_named() -> None:
    assert [claim for *_, claim in ask(load_recipe("cpu"), claim_ids=("toy-4",))] == ["toy-4"]


def test_a_limit_instead_of_claims() -> None:
    slo = parse_slo("ttft:p90:300ms")
    recipe = load_recipe("cpu")
    most = max(point.streams or 0 for point in recipe.load.ladder)
    assert ask(recipe, slo=slo) == [(slo.says, 0.9, Point(streams=most), None)]
    assert ask(recipe, slo=slo, streams=3) == [(slo.says, 0.9, Point(streams=3), None)]


def test_a_point_of_the_question_has_the_gap_of_its_setting() -> None:
    (question,) = questions(
        load_recipe("cpu"), GAPS, slo=None, streams=None, claim_ids=("toy-4",), looks=1, most_points=1
    )
    gap = question.point(0).turn_gap
    assert gap is not None
    assert (gap.mean_s, gap.distribution) == (8.0, "exponential")
    assert question.point(0).label == "4 streams, turn gap 8 s"


@pytest.mark.parametrize(
    ("target", "override", "changes", "because"),
    [
        ("cpu", {}, {"claim_ids": ("toy-5",)}, "no such claim"),
        ("cpu", {"load.ladder": "[{concurrent = 4}]"}, {"slo": parse_slo("e2e:p95:1s")}, "has no streams"),
    ],
)
def test_nothing_to_ask_about(target: str, override: dict[str, str], changes: dict[str, object], because: str) -> None:
    with pytest.raises(UsageError, match=because):
        ask(load_recipe(target, override), **changes)
