"""What a run records of its engine's caches once a point is over."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import measure
from bench.engine.compiled import Look, Since, could_not
from bench.load.clock import RunClock
from bench.observe.compiled import CompiledFiles
from bench.observe.observations import OBSERVATION
from bench.observe.wall_clock import TICK_S


class Caches:
    """Of an engine that says what it is told to."""

    def __init__(self, *looks: Look) -> None:
        self.looks = list(looks)
        self.asked: list[Since] = []

    def compiled_since(self, moment: Since) -> list[Look]:
        self.asked.append(moment)
        return self.looks


def after(caches: Caches, clock: RunClock, *, began_s: float = 10.0, steady_s: float = 20.0) -> list[CompiledFiles]:
    run: Any = SimpleNamespace(run=2, clock=clock, engine=caches)
    return measure._compiled(run, 3, began_s, steady_s)


@given(st.floats(0, 1e5), st.floats(0, 600))
def test_a_file_is_at_the_moment_of_the_run_at_which_it_was_written(began: float, later: float) -> None:
    clock = RunClock.start()
    written = clock.epoch_wall + began + later
    caches = Caches(Look(count=1, files=((written, "triton", "ABC/moe.cubin"),)))
    (seen,) = after(caches, clock, began_s=began, steady_s=began + 1.0)
    assert OBSERVATION.validate_json(seen.model_dump_json()) == seen
    assert (seen.run, seen.point, seen.since, seen.count) == (2, 3, began, 1)
    assert seen.files[0].t == pytest.approx(began + later, abs=0.01)
    (moment,) = caches.asked
    assert moment.first - moment.written == pytest.approx(1.0, abs=1e-5)
    assert moment.written == pytest.approx(clock.epoch_wall + began - TICK_S, abs=0.01)


def test_every_look_is_recorded_and_who_could_not_says_so() -> None:
    one, other = Look(count=0, replica=0), could_not("x").model_copy(update={"replica": 1})
    seen = after(Caches(one, other), RunClock.start())
    assert [(one.replica, one.count, one.why_not) for one in seen] == [(0, 0, None), (1, None, "x")]


def test_of_somebody_elses_engine_nothing_is_recorded() -> None:
    assert after(Caches(), RunClock.start()) == []
