"""Observations find their places, or contradict each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bench.errors import StreamproofError
from bench.observe.compiled import CompiledFiles
from bench.observe.observations import (
    Counters,
    CounterValues,
    EngineEvent,
    Finished,
    Gauges,
    Interrupted,
    PhaseStarted,
)
from bench.report.seen import Phases, index
from tests.report.factories import make_client, make_started, phases

if TYPE_CHECKING:
    from bench.observe.observations import Observation


def counters(when: str, tokens: float) -> Counters:
    return Counters.model_validate(
        {"t": 1.0, "run": 0, "point": 0, "when": when, "values": CounterValues(prompt_tokens=tokens)}
    )


def look(**changes: Any) -> CompiledFiles:
    at = {"t": 130.0, "run": 0, "point": 2, "since": 0.0}
    return CompiledFiles.model_validate({**at, "count": 0, "files": [], "why_not": None, **changes})


def test_everything_is_found_by_run_and_point() -> None:
    event = EngineEvent(t=3.0, run=1, event="jit", line="compiled", line_number=7)
    of_one, of_another = look(), look(replica=1)
    seen = index(
        [
            make_started(run=1),
            counters("before", 1.0),
            *phases(0, 0),
            counters("after", 5.0),
            make_client(run=1, point=2),
            event,
            of_one,
            of_another,
            Gauges(t=500.0, run=0, running=1.0, waiting=0.0, kv_usage=0.1),
        ]
    )
    assert seen.started[1].run == 1
    assert seen.phases == {(0, 0): Phases(prime=0.0, ramp=1.0, steady=10.0, drain=110.0, done=120.0)}
    assert (seen.before[0, 0].prompt_tokens, seen.after[0, 0].prompt_tokens) == (1.0, 5.0)
    assert seen.clients[1, 2].point == 2
    assert seen.events == [event]
    assert seen.compiled == {(0, 2): {None: of_one, 1: of_another}}
    assert seen.last_s == 500.0
    assert seen.interrupted is None
    assert not seen.finished


def test_how_the_run_ended() -> None:
    first = Interrupted(t=5.0, run=0, cause="engine", detail="it died")
    seen = index([first, Interrupted(t=6.0, run=0, cause="client", detail="and then this"), Finished(t=7.0, run=0)])
    assert seen.interrupted == first
    assert seen.finished


@pytest.mark.parametrize(
    ("observations", "said"),
    [
        ([make_started(), make_started()], "the engine's start is there twice"),
        ([*phases(0, 1), *phases(0, 1)], "phase prime of point 1 is there twice"),
        ([counters("after", 1.0), counters("after", 2.0)], "counters after point 0 is there twice"),
        ([make_client(), make_client()], "the client at point 0 is there twice"),
        ([look(), look(replica=1), look()], "the look into the caches after point 2 is there twice"),
    ],
)
def test_what_can_be_only_once_is(observations: list[Observation], said: str) -> None:
    with pytest.raises(StreamproofError, match=said):
        index(observations)


def test_phases_come_in_their_order() -> None:
    with pytest.raises(StreamproofError, match="phases of point 0 in run 0 are not in order"):
        index(
            [
                PhaseStarted(t=10.0, run=0, point=0, phase="steady"),
                PhaseStarted(t=0.0, run=0, point=0, phase="drain"),
            ]
        )
