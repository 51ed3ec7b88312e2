"""Unix time on a run's clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.load.clock import RunClock
from bench.observe.wall_clock import TICK_S, WallClock

if TYPE_CHECKING:
    from pathlib import Path

ROUNDED = 2e-6
"""A double holds a Unix time to 0.5 microseconds."""
epochs = st.floats(1.6e9, 2.5e9)
times = st.floats(-86_400, 30 * 86_400)


@given(epochs, times)
def test_there_and_back_is_the_same_moment(offset: float, t: float) -> None:
    clock = WallClock(offset)
    assert clock.on_run(clock.of(t)) == pytest.approx(t, abs=ROUNDED)


@given(epochs, times, times)
def test_what_was_written_later_is_later_on_the_runs_clock_too(offset: float, one: float, other: float) -> None:
    clock = WallClock(offset)
    early, late = sorted((one, other))
    assert clock.of(early) <= clock.of(late)
    assert clock.on_run(offset + early) <= clock.on_run(offset + late)


@given(epochs, times, st.floats(0, 1000))
def test_a_distance_of_two_files_is_kept(offset: float, t: float, apart: float) -> None:
    clock = WallClock(offset)
    assert clock.on_run(offset + t + apart) - clock.on_run(offset + t) == pytest.approx(apart, abs=ROUNDED)


@given(epochs, times, st.floats(-3600, 3600))
def test_a_clock_that_was_set_moves_what_was_before_by_as_much(offset: float, t: float, by: float) -> None:
    file = WallClock(offset).of(t)
    assert WallClock(offset + by).on_run(file) == pytest.approx(t - by, abs=ROUNDED)


def test_a_file_is_stamped_between_two_readings_of_the_runs_clock(tmp_path: Path) -> None:
    clock = RunClock.start()
    before = clock.now()
    (tmp_path / "file").write_text("x")
    after = clock.now()
    found = WallClock.read(clock.now).on_run((tmp_path / "file").stat().st_mtime)
    # Tests run where time servers slew the clock: 0.5 ms a second at most.
    assert before - TICK_S - 0.001 <= found <= after + 0.001


def test_both_clocks_stand_as_the_runs_epoch_says() -> None:
    clock = RunClock.start()
    assert WallClock.read(clock.now).offset_s == pytest.approx(clock.epoch_wall, abs=0.05)
