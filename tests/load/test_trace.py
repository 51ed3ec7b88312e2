from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from bench.errors import Exit, UsageError
from bench.load.trace import TraceLine, read_trace, with_traces_pinned
from recipes.schema import Point
from tests.report.factories import make_claim, make_recipe

if TYPE_CHECKING:
    from pathlib import Path

    from recipes.schema import Recipe

GOOD = '{"time": 5.0, "agent": "booking", "tokens": 100}\n'


def test_times_count_from_the_first_line(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text(GOOD + '{"time": 7.5, "agent": "router", "tokens": 90}\n')
    assert read_trace(trace) == [
        TraceLine(time=0.0, agent="booking", tokens=100),
        TraceLine(time=2.5, agent="router", tokens=90),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nonsense", "Invalid JSON"),
        ("", "Invalid JSON"),
        ("7", "should be an object|valid dictionary"),
        ('{"time": 6.0, "agent": "booking"}', "tokens: Field required"),
        ('{"time": 6.0, "agent": "booking", "tokens": 0}', "tokens: Input should be greater than 0"),
        ('{"time": 6.0, "agent": "booking", "tokens": "9"}', "tokens: Input should be a valid integer"),
        ('{"time": -1.0, "agent": "booking", "tokens": 9}', "time: Input should be greater than or equal to 0"),
        ('{"time": 6.0, "agent": 4, "tokens": 9}', "agent: Input should be a valid string"),
        ('{"time": 6.0, "agent": "a", "tokens": 9, "x": 1}', "x: Extra inputs are not permitted"),
        ('{"time": 4.0, "agent": "a", "tokens": 9}', "time 4 is before the line above"),
    ],
)
def test_a_bad_line_is_named_by_its_number(tmp_path: Path, line: str, message: str) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text(GOOD * 2 + line + "\n" + GOOD)
    with pytest.raises(UsageError, match=f"trace.jsonl, line 3: .*({message})") as caught:
        read_trace(trace)
    assert caught.value.exit_code is Exit.USAGE
    assert caught.value.remedy
    assert "\n" not in caught.value.message


def test_no_trace(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_trace(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(UsageError, match="is empty"):
        read_trace(tmp_path / "empty.jsonl")


def recipe_with(trace: Path, lines: str) -> Recipe:
    trace.write_text(lines)
    point = {"trace": str(trace)}
    return make_recipe(load={"ladder": [{"streams": 20}, point]}, claims=[make_claim(), make_claim(point=point)])


def test_a_recipe_gets_the_hash_of_its_trace_and_so_do_its_claims(tmp_path: Path) -> None:
    trace = tmp_path / "calls.jsonl"
    recipe = with_traces_pinned(recipe_with(trace, GOOD.replace("booking", "router")))
    streams, replay = recipe.load.ladder
    assert streams == Point(streams=20)
    assert replay.trace_sha256 == hashlib.sha256(trace.read_bytes()).hexdigest()
    assert [claim.point for claim in recipe.claims] == [streams, replay]
    assert with_traces_pinned(recipe) == recipe


def test_a_trace_that_has_changed_since_is_refused(tmp_path: Path) -> None:
    trace = tmp_path / "calls.jsonl"
    recipe = with_traces_pinned(recipe_with(trace, GOOD.replace("booking", "router")))
    trace.write_text(GOOD)
    with pytest.raises(UsageError, match="has changed"):
        with_traces_pinned(recipe)


def test_an_agent_that_the_workload_does_not_have_is_named_before_anything_starts(tmp_path: Path) -> None:
    recipe = recipe_with(tmp_path / "calls.jsonl", GOOD.replace("booking", "router") + GOOD)
    with pytest.raises(UsageError, match=r"calls.jsonl, line 2: .*'booking'") as caught:
        with_traces_pinned(recipe)
    assert caught.value.remedy == "Name agents of the recipe: router."


def test_a_recipe_without_traces_stays_as_it_is() -> None:
    recipe = make_recipe()
    assert with_traces_pinned(recipe) is recipe
