"""Every record is in exactly one place, decided by its intended send time."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import StreamproofError
from bench.records import RequestRecord
from bench.report.measurement import Measurement, Place, Window
from tests.report.factories import (
    DRAIN,
    POINT_S,
    STEADY,
    healthy,
    healthy_observations,
    make_evidence,
    make_record,
    phases,
)


def measurement(records: list[RequestRecord], reached: int = 5) -> Measurement:
    return Measurement.of(make_evidence(records, phases(0, 0)[:reached]))


@pytest.mark.parametrize(
    ("intended", "primed", "place"),
    [
        (0.5, True, Place.PRIMED),
        (STEADY, True, Place.PRIMED),
        (1.0, False, Place.RAMP),
        (math.nextafter(STEADY, 0), False, Place.RAMP),
        (STEADY, False, Place.WINDOW),
        (math.nextafter(DRAIN, 0), False, Place.WINDOW),
        (DRAIN, False, Place.DRAIN),
    ],
)
def test_the_window_is_from_steady_to_drain(intended: float, primed: bool, place: Place) -> None:
    record = make_record(intended_s=intended, primed=primed, took_s=50.0)
    assert measurement([record]).place.tolist() == [place]


def test_a_request_that_ends_after_the_window_is_in_it() -> None:
    found = measurement([make_record(intended_s=DRAIN - 1, took_s=30.0)])
    assert found.in_window(0).tolist() == [0]


def test_the_window_of_an_interrupted_point_ends_with_what_was_last_seen() -> None:
    found = measurement([make_record(intended_s=50.0, took_s=5.0)], reached=3)
    assert found.windows == {(0, 0): Window(STEADY, 55.0)}
    assert found.in_window(0).tolist() == [0]
    assert not found.is_complete(0)


def test_a_point_that_never_got_steady_has_no_window() -> None:
    found = measurement([make_record(intended_s=5.0)], reached=2)
    assert found.windows == {}
    assert found.place.tolist() == [Place.RAMP]
    assert found.in_window(0).tolist() == []
    assert found.in_flight_seconds(0, 0) == 0.0


@pytest.mark.parametrize("reached", [0, 1, 2, 3, 4])
def test_a_point_is_complete_when_every_phase_was_reached(reached: int) -> None:
    assert not measurement([make_record()], reached).is_complete(0)
    assert measurement([make_record()], 5).is_complete(0)


def test_a_point_is_complete_when_every_run_has_it() -> None:
    both = healthy([0.1] * 3, runs=2)
    assert Measurement.of(both).is_complete(1)
    first = [seen for seen in both.observations if not (seen.run == 1 and getattr(seen, "point", None) == 1)]
    found = Measurement.of(make_evidence([], first, recipe=both.recipe))
    assert found.is_complete(0)
    assert not found.is_complete(1)
    assert found.runs_of(1) == [0]


def test_points_are_begun_by_phases_or_by_records() -> None:
    found = Measurement.of(make_evidence([make_record(point=1)], phases(0, 0)[:1]))
    assert found.begun == [0, 1]
    assert found.all_of(0, 0).tolist() == []


def test_runs_and_points_are_kept_apart() -> None:
    found = Measurement.of(healthy([0.1] * 4, runs=2, points=2))
    assert sorted(found.rows) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    for (run, point), rows in found.rows.items():
        assert set(found.columns.run[rows].tolist()) == {run}
        assert set(found.columns.point[rows].tolist()) == {point}
        assert len(rows) == 5
    assert len(found.in_window(1)) == 8


@given(order=st.permutations(range(30)))
def test_the_order_of_the_records_decides_nothing(order: list[int]) -> None:
    records = [make_record(request=i, intended_s=STEADY + i % 7, took_s=0.1 + i / 10) for i in range(30)]
    shuffled = [records[i] for i in order]
    for found in (measurement(records), measurement(shuffled)):
        rows = found.all_of(0, 0)
        intended = found.columns.intended[rows]
        assert (np.diff(intended) >= 0).all()
    first, second = measurement(records), measurement(shuffled)
    assert first.columns.done[first.all_of(0, 0)].tolist() == second.columns.done[second.all_of(0, 0)].tolist()


def test_seconds_in_flight_are_those_inside_the_window() -> None:
    records = [
        make_record(intended_s=STEADY - 5, sent_s=STEADY - 4, done_s=STEADY + 2),  # 2 s of it inside
        make_record(intended_s=50.0, sent_s=51.0, done_s=54.0),  # all 3 s
        make_record(intended_s=DRAIN - 1, sent_s=DRAIN - 1, done_s=DRAIN + 9),  # 1 s
        make_record(intended_s=DRAIN + 1, sent_s=DRAIN + 1, done_s=DRAIN + 2),  # none
        make_record(intended_s=50.0, sent_s=None, done_s=60.0),  # never sent
    ]
    assert measurement(records).in_flight_seconds(0, 0) == pytest.approx(6.0)


def test_a_point_that_the_recipe_does_not_have_is_refused() -> None:
    with pytest.raises(StreamproofError, match="point 2; the recipe's ladder has 2 points"):
        Measurement.of(make_evidence([make_record(point=2)], []))
    with pytest.raises(StreamproofError, match="point 7"):
        Measurement.of(make_evidence([], healthy_observations([], point=7, at=POINT_S)))
