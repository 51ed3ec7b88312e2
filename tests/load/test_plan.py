from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bench.errors import UsageError
from bench.load.plan import Closed, PointPlan, Streams
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


def test_sixteen_concurrent_requests_are_not_sixteen_streams() -> None:
    assert PointPlan.from_recipe(LOAD, point=1, run=0, seed=9).model == Closed(count=16)


@pytest.mark.parametrize(
    "change", [{"ramp_s": -1.0}, {"steady_s": 0.0}, {"steady_s": -1.0}, {"drain_s": -0.1}, {"request_timeout_s": 0.0}]
)
def test_phases_that_cannot_be(change: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="point 0: "):
        replace(PointPlan.from_recipe(LOAD, point=0, run=0, seed=1), **change)
