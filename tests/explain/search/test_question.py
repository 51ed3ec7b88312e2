"""What a question may be: it comes back from a file that anybody may have written."""

import pytest
from pydantic import ValidationError

from bench.explain.search.question import Question
from recipes.schema import Point, TurnGap
from tests.explain.search.laws import asked


@pytest.mark.parametrize(
    "changes",
    [
        {"values": (2.0, 1.0)},
        {"values": (1.0, 1.0)},
        {"values": (0.0, 1.0)},
        {"values": (1.0, 2.5)},
        {"values": ()},
        {"start": 64},
        {"axis": "turn_gap"},  # the longest gap is the easiest, and these ascend
        {"base": Point(concurrent=4)},
        {"error": 0.9},
        {"looks": 0},
    ],
)
def test_what_makes_no_sense_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        asked(**changes)


def test_it_survives_its_file() -> None:
    question = asked(axis="turn_gap", values=(8.0, 4.0), start=0, base=Point(streams=20))
    assert Question.model_validate_json(question.model_dump_json()) == question


def test_a_point_has_a_turn_gap_of_its_own_only_with_streams() -> None:
    gap = TurnGap(distribution="fixed", mean_s=2.0)
    assert Point(streams=4, turn_gap=gap).label == "4 streams, turn gap 2 s"
    with pytest.raises(ValidationError, match="belongs to streams"):
        Point(concurrent=4, turn_gap=gap)
