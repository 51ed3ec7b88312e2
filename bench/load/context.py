"""What a load model is given to work with."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from bench.load.alarm import Alarm
from bench.load.clock import RunClock
from bench.load.plan import PointPlan
from bench.load.sender import Sender
from bench.load.stock import Stock


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """When the phases of a point begin, seconds since the run's epoch.

    Attributes:
        ramp, steady: those phases.
        drain: the end of the window: nothing intended for then or later is sent.
        end: whatever is open then is given up.
    """

    ramp: float
    steady: float
    drain: float
    end: float

    @classmethod
    def of(cls, plan: PointPlan, ramp: float) -> Times:
        """The phases of a point whose ramp begins at `ramp`."""
        steady = ramp + plan.ramp_s
        drain = steady + plan.steady_s
        return cls(ramp=ramp, steady=steady, drain=drain, end=drain + plan.drain_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The means of one point in one process."""

    plan: PointPlan
    clock: RunClock
    alarm: Alarm
    stock: Stock
    sender: Sender

    def sleep_until(self, run_s: float) -> Awaitable[None]:
        """Until a time of the run's clock."""
        return self.alarm.sleep_until(self.clock.monotonic(run_s))


class LoadModel(Protocol):
    """One way to send requests."""

    async def prepare(self, plan: PointPlan, stock: Stock) -> None:
        """Have the turns ready that the point will need; nothing else is there yet, neither server nor clock."""
        ...

    async def drive(self, context: Context, times: Times) -> None:
        """Send; return when nothing more will be sent and every request has ended."""
        ...


async def unless_stopped(work: Coroutine[Any, Any, None], stop: asyncio.Event) -> None:
    """Run to the end, or until `stop` is set or this task is cancelled: then the work is cancelled, and waited for."""
    doing = asyncio.ensure_future(work)
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((doing, stopped), return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
        doing.cancel()
        await asyncio.wait((doing, stopped))
    if not doing.cancelled():
        doing.result()


async def together(coroutines: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all of them; the first that fails ends the others, and its error is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            for coroutine in coroutines:
                group.create_task(coroutine)
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
