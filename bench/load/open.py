"""Open loop: requests arrive at a rate, whatever the server does. No reply delays an arrival.

The ramp is part of the law: the rate grows evenly from 0 to the full one, and stays. Arrival number k comes when the
expected number of arrivals reaches k (fixed distances) or the k-th point of a unit Poisson process (Poisson): the time
change of an inhomogeneous Poisson process (Cinlar 1975, "Introduction to Stochastic Processes", section 4.7).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from functools import partial

from bench.errors import UsageError
from bench.load.arrivals import send_at
from bench.load.context import Context, Times
from bench.load.plan import Open, PointPlan
from bench.load.stock import Stock
from bench.records import RequestRecord
from bench.seeds import generator


def arrival_times(model: Open, *, seed: int, ramp_s: float, length_s: float) -> Iterator[float]:
    """Seconds after the ramp began of every arrival before `length_s`, ascending."""
    random = generator(seed, "arrivals")
    expected = 0.0
    while True:
        expected += random.expovariate(1.0) if model.arrivals == "poisson" else 1.0
        at_s = _when(expected / model.rate, ramp_s)
        if at_s >= length_s:
            return
        yield at_s


def _when(full_rate_s: float, ramp_s: float) -> float:
    """When so many seconds' worth of the full rate have arrived: the ramp brings half of its length."""
    if full_rate_s < ramp_s / 2:
        return math.sqrt(2 * ramp_s * full_rate_s)
    return full_rate_s + ramp_s / 2


class OpenLoad:
    """Arrival k is caller k modulo callers: consecutive requests come from different conversations."""

    def __init__(self, model: Open) -> None:
        if not (model.rate > 0 and math.isfinite(model.rate)) or model.callers < 1:
            raise UsageError(
                f"an open-loop load of {model.rate:g} requests/s from {model.callers} callers",
                remedy="Give a rate above 0 and at least one caller.",
            )
        self._model = model

    async def prepare(self, plan: PointPlan, stock: Stock) -> None:
        """Exactly the turns that arrive."""
        await stock.prepare(Counter(caller for _, caller in self._mine(plan)))

    async def drive(self, context: Context, times: Times) -> None:
        """Send every arrival at its time."""

        async def send(caller: int, intended: float) -> RequestRecord:
            return await context.sender.send(await context.stock.next(caller), intended, stream=caller)

        arrivals = ((times.ramp + at_s, partial(send, caller)) for at_s, caller in self._mine(context.plan))
        await send_at(context, times, arrivals)

    def _mine(self, plan: PointPlan) -> Iterator[tuple[float, int]]:
        mine = set(plan.mine(self._model.callers))
        times = arrival_times(self._model, seed=plan.seed, ramp_s=plan.ramp_s, length_s=plan.ramp_s + plan.steady_s)
        for number, at_s in enumerate(times):
            caller = number % self._model.callers
            if caller in mine:
                yield at_s, caller
