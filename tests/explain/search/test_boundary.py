"""The steps of a search, one by one."""

from collections.abc import Generator

import pytest

from bench.explain.search.boundary import ATTEMPTS, Search, Told, easier, harder, search
from bench.explain.slo.parse import parse_slo
from bench.stats.clustered import Counts
from tests.explain.search.laws import asked

GOOD = Told(Counts.of([False] * 400))
BAD = Told(Counts.of([True] * 400))
OPEN = Told(Counts.of(([True] + [False] * 19) * 20))
"""Exactly the allowed share: seems to hold, and settles nothing."""


def visited(
    until: int, *, most: int = 60, spoiled: tuple[int, ...] = (), **changes: object
) -> tuple[list[float], Search]:
    """The stream counts that a search visits when the limit holds up to `until`."""
    question, state = asked(most_points=most, **changes), Search()
    course: Generator[int, Told, None] = search(question, state)
    found: list[float] = []
    index = next(course, None)
    while index is not None:
        found.append(question.values[index])
        told = GOOD if question.values[index] <= until else BAD
        try:
            index = course.send(Told(told.counts, spoiled=len(found) - 1 in spoiled))
        except StopIteration:
            index = None
    return found, state


def test_it_doubles_bisects_and_confirms_both_sides_in_turns() -> None:
    found, state = visited(13)
    assert found == [4, 8, 16, 12, 14, 13, 13, 14]
    assert (state.holds, state.fails) == (12, 13)


def test_it_goes_down_from_a_start_that_is_too_high() -> None:
    found, state = visited(1, start=15)
    assert found == [16, 8, 4, 2, 1, 1, 2]
    assert (state.holds, state.fails) == (0, 1)


def test_where_all_or_none_hold_one_end_is_confirmed() -> None:
    assert visited(99)[0] == [4, 8, 16, 32, 64, 64]
    assert visited(0)[0] == [4, 2, 1, 1]


def test_a_setting_that_cannot_be_settled_stays_between_the_bounds() -> None:
    question, state = asked(looks=2), Search()
    course = search(question, state)
    index = next(course, None)
    while index is not None:
        value = question.values[index]
        told = OPEN if 11 <= value <= 13 else GOOD if value < 11 else BAD
        try:
            index = course.send(told)
        except StopIteration:
            index = None
    assert question.values[state.holds or 0] < 11
    assert question.values[state.fails or 0] == 14
    assert {c.settled for k, c in state.candidates.items() if 10 <= k <= 12} == {None}
    assert all(c.looks == 2 for c in state.candidates.values() if c.settled is None)


def test_an_exploration_that_erred_is_put_right_by_certificates() -> None:
    """One lucky window at 20 streams: the candidates move down until both sides are certified."""
    question, state = asked(), Search()
    course = search(question, state)
    index = next(course, None)
    lucky = True
    while index is not None:
        value = question.values[index]
        told = GOOD if value <= 10 or lucky else BAD
        if value >= 16:
            lucky = False
        try:
            index = course.send(told)
        except StopIteration:
            index = None
    assert question.values[state.holds or 0] <= 10 < question.values[state.fails or 0]


def test_a_point_that_the_client_spoiled_is_measured_again_and_does_not_count() -> None:
    found, state = visited(13, spoiled=(1,))
    assert found == [4, 8, 8, 16, 12, 14, 13, 13, 14]
    assert state.discarded == [1]
    found, state = visited(13, spoiled=(6,))
    assert found == [4, 8, 16, 12, 14, 13, 13, 13, 14]
    assert state.discarded == [6]
    assert state.candidates[12].looks == 1


def test_a_machine_that_always_spoils_is_not_asked_forever() -> None:
    found, state = visited(13, spoiled=tuple(range(60)))
    assert found[:ATTEMPTS] == [4] * ATTEMPTS
    assert (state.holds, state.fails) == (12, 13)
    assert len(state.discarded) == len(found) // ATTEMPTS * (ATTEMPTS - 1)


@pytest.mark.parametrize("most", [1, 2, 3, 5, 6, 7])
@pytest.mark.parametrize("spoiled", [(), tuple(range(60))])
def test_it_ends_after_as_many_points_as_it_may_measure(most: int, spoiled: tuple[int, ...]) -> None:
    found, state = visited(13, most=most, spoiled=spoiled)
    assert len(found) == state.points == most


def test_exactly_the_allowed_share_seems_to_hold() -> None:
    """1 - 0.9 is a little less than 0.1 in floating point."""
    question, state = asked(slo=parse_slo("e2e:p90:1s")), Search()
    course = search(question, state)
    assert question.values[next(course)] == 4
    assert question.values[course.send(Told(Counts.of([True] + [False] * 9)))] == 8


def test_twice_and_half_the_load() -> None:
    question = asked(values=(3.0, 5.0, 6.0, 7.0, 13.0), start=0)
    assert [harder(question, k) for k in range(5)] == [2, 4, 4, 4, 4]
    assert [easier(question, k) for k in range(5)] == [0, 0, 0, 0, 2]
