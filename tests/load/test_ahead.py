from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import TYPE_CHECKING

import pytest

from bench.errors import UsageError
from bench.load.ahead import Ahead
from bench.load.plan import Open, PointPlan, Streams
from bench.load.ready import ReadyPoint
from recipes.schema import TurnGap
from tests.truth.workload import TruthSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench.load.plan import Model
    from bench.load.stock import BeforeCall
    from bench.workload.turn import Turn

STREAMS = Streams(count=5, gap=TurnGap(distribution="fixed", mean_s=0.01))


def plan_of(point: int, *, steady_s: float = 1.0, model: Model = STREAMS) -> PointPlan:
    return PointPlan(
        point=point, run=0, seed=1, model=model, ramp_s=0.0, steady_s=steady_s, drain_s=1.0, request_timeout_s=1.0
    )


class Watched(TruthSource):
    """Tells of every call that is made."""

    told: Callable[[str], None]

    @classmethod
    def telling(cls, point: int, told: Callable[[str], None]) -> Watched:
        source = cls(point=point, turns=1)
        object.__setattr__(source, "told", told)
        return source

    def calls(self, stream: int) -> Iterator[Sequence[Turn]]:
        for call in super().calls(stream):
            self.told(f"call of {self.point}")
            yield call


def making(plan: PointPlan, source: TruthSource, before_call: BeforeCall) -> ReadyPoint:
    return ReadyPoint(plan, source, before_call=before_call)


async def hops() -> None:
    """Long enough for another thread to do what it may do."""
    for _ in range(200):
        await asyncio.to_thread(lambda: None)


def test_points_are_handed_out_ready_and_in_order() -> None:
    async def main(ahead: Ahead) -> list[tuple[int, int, int]]:
        found = []
        for index in range(3):
            point = await ahead.take(index)
            turns = [await point.stock.next(stream) for stream in range(5)]
            found.append((point.plan.point, len(turns), point.stock.late))
            ahead.go_on()
        return found

    with Ahead({n: partial(making, plan_of(n), TruthSource(point=n)) for n in range(3)}) as ahead:
        assert asyncio.run(main(ahead)) == [(0, 5, 0), (1, 5, 0), (2, 5, 0)]


def test_nothing_is_made_while_a_point_is_measured() -> None:
    told: list[str] = []
    begun, taken = threading.Event(), threading.Event()

    def tell(words: str) -> None:
        told.append(words)
        if words == "call of 1":
            begun.set()
            assert taken.wait(30)  # else the whole point could be ready before the first one is taken

    async def main(ahead: Ahead) -> None:
        await asyncio.to_thread(begun.wait)  # the second point is being made ready, ahead of its time
        await ahead.take(0)
        told.append("taken")
        taken.set()
        await hops()
        told.append("over")
        ahead.go_on()
        await ahead.take(1)

    points = {n: partial(making, plan_of(n, steady_s=1.0 + 9 * n), Watched.telling(n, tell)) for n in range(2)}
    with Ahead(points) as ahead:
        asyncio.run(main(ahead))
    measured = told[told.index("taken") + 1 : told.index("over")]
    assert measured == []  # the call that was under way had told already
    assert told[told.index("over") :].count("call of 1") > 100


def test_what_waits_has_a_limit() -> None:
    begun: list[int] = []

    def make(point: int, before_call: BeforeCall) -> ReadyPoint:
        begun.append(point)
        return making(plan_of(point), TruthSource(point=point), before_call)

    async def main(ahead: Ahead) -> None:
        await asyncio.wrap_future(ahead._ready[0])
        await hops()
        assert begun == [0]  # it is ready, nobody has taken it, and its size is beyond the limit
        await ahead.take(0)
        ahead.go_on()
        await ahead.take(1)
        assert begun == [0, 1]

    with Ahead({point: partial(make, point) for point in range(3)}, most_bytes=1) as ahead:
        asyncio.run(main(ahead))


def test_what_cannot_be_made_is_said_when_it_is_asked_for() -> None:
    async def main(ahead: Ahead) -> None:
        await ahead.take(0)
        ahead.go_on()
        with pytest.raises(UsageError, match="open-loop load of -1"):
            await ahead.take(1)

    models: tuple[Model, Model] = (STREAMS, Open(rate=-1.0, arrivals="fixed", callers=1))
    points = {n: partial(making, plan_of(0, model=model), TruthSource()) for n, model in enumerate(models)}
    with Ahead(points) as ahead:
        asyncio.run(main(ahead))


def test_leaving_ends_a_preparation() -> None:
    begun = threading.Event()
    endless = plan_of(0, steady_s=1e3)
    with Ahead({0: partial(making, endless, Watched.telling(0, lambda _: begun.set()))}) as ahead:
        begun.wait()
    assert not ahead._thread.is_alive()
    for thread in threading.enumerate():
        if thread.name.startswith("turns"):
            thread.join(timeout=30)
            assert not thread.is_alive()
