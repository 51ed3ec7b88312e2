from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.errors import UsageError
from bench.load.plan import BargeIn, Closed, Model, Open, PointPlan, Replay, Streams, model_of
from bench.load.trace import TraceLine
from recipes.schema import Load, Point, TurnGap

GAP = TurnGap(distribution="exponential", mean_s=4.0)
LOAD = Load(
    ladder=[Point(streams=20), Point(concurrent=16)],
    turn_gap=GAP,
    ramp_s=10.0,
    steady_s=60.0,
    drain_s=30.0,
    request_timeout_s=20.0,
)


def test_a_point_of_the_recipe() -> None:
    plan = PointPlan.from_recipe(LOAD, point=0, run=2, seed=9)
    assert plan.model == Streams(count=20, gap=GAP)
    assert (plan.point, plan.run, plan.seed) == (0, 2, 9)
    assert (plan.ramp_s, plan.steady_s, plan.drain_s, plan.request_timeout_s) == (10.0, 60.0, 30.0, 20.0)


def model(point: dict[str, Any]) -> Model:
    return model_of(Point.model_validate(point), GAP)


def test_a_rate_comes_from_as_many_conversations_as_would_speak_that_often() -> None:
    assert model({"rate": 12, "arrivals": "poisson"}) == Open(rate=12.0, arrivals="poisson", callers=48)
    assert model({"rate": 0.1, "arrivals": "fixed"}) == Open(rate=0.1, arrivals="fixed", callers=1)


def test_some_replies_of_streams_are_interrupted() -> None:
    streams = Streams(count=20, gap=GAP)
    point = {"streams": 20, "barge_in": {"share": 0.2, "after_s": [0.3, 0.8]}}
    assert model(point) == BargeIn(streams=streams, share=0.2, after_s=(0.3, 0.8))


def test_a_trace_is_read_here_and_only_here(tmp_path: Path) -> None:
    trace = tmp_path / "calls.jsonl"
    trace.write_text('{"time": 5.0, "agent": "booking", "tokens": 100}\n')
    lines = (TraceLine(time=0.0, agent="booking", tokens=100),)
    assert model({"trace": str(trace)}) == Replay(trace=trace, lines=lines)
    with pytest.raises(UsageError, match="has changed: its SHA-256 is"):
        model({"trace": str(trace), "trace_sha256": "0" * 64})


def test_sixteen_concurrent_requests_are_not_sixteen_streams() -> None:
    assert PointPlan.from_recipe(LOAD, point=1, run=0, seed=9).model == Closed(count=16)


@pytest.mark.parametrize(
    "change", [{"ramp_s": -1.0}, {"steady_s": 0.0}, {"steady_s": -1.0}, {"drain_s": -0.1}, {"request_timeout_s": 0.0}]
)
def test_phases_that_cannot_be(change: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="point 0: "):
        replace(PointPlan.from_recipe(LOAD, point=0, run=0, seed=1), **change)
