"""Closed loop: so many requests always in flight. "16 concurrent requests" means this, not 16 streams.

Each slot sends its next request the moment its last one ended, so the intended send time is that moment.
"""

from __future__ import annotations

import math
from typing import Final

from bench.load.context import Context, Times, together
from bench.load.gaps import opening
from bench.load.plan import Closed, PointPlan
from bench.load.stock import Stock
from bench.records import Outcome, RequestRecord

FAILING_S: Final = 1.0
"""A slot whose requests fail sends one a second at most: a dead server shall not fill the disk with refusals."""


class ClosedLoad:
    """Every slot in a coroutine of its own."""

    def __init__(self, model: Closed) -> None:
        self._model = model

    async def prepare(self, plan: PointPlan, stock: Stock) -> None:
        """As many turns as the fastest replies would need."""
        turns = 1 + math.ceil((plan.ramp_s + plan.steady_s) / self._model.fastest_reply_s)
        await stock.prepare(dict.fromkeys(plan.mine(self._model.count), turns))

    async def drive(self, context: Context, times: Times) -> None:
        """Fill the slots over the ramp, then keep them filled."""
        await together(self._slot(context, times, slot) for slot in context.plan.mine(self._model.count))

    async def _slot(self, context: Context, times: Times, slot: int) -> None:
        intended = times.ramp + opening(slot, self._model.count, context.plan.ramp_s)
        await context.sleep_until(intended)
        while intended < times.drain:
            turn = await context.stock.next(slot)
            record = await context.sender.send(turn, intended, stream=slot)
            intended = _next(record)
            if intended > record.done_s:
                await context.sleep_until(intended)


def _next(record: RequestRecord) -> float:
    return record.done_s if record.outcome is Outcome.OK else max(record.done_s, record.intended_s + FAILING_S)
