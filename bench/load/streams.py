"""Streams with turn gaps: open conversations, most of them silent at any moment. The load of a voice service.

A stream holds no place at the server between its turns. The gap runs from the end of a reply to the intended time of
the next request, so a slow reply moves the next turn but never thins out the load in silence: what was intended is
recorded, and latency counts from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat

from bench.load.context import Context, Times, together
from bench.load.gaps import gaps, most_turns, opening
from bench.load.plan import PointPlan, Streams
from bench.load.stock import Stock


class StreamsLoad:
    """Every stream in a coroutine of its own."""

    def __init__(self, model: Streams) -> None:
        self._model = model

    async def prepare(self, plan: PointPlan, stock: Stock) -> None:
        """The most turns that each stream can need: its gaps are known beforehand."""
        model = self._model
        await stock.prepare(
            {
                stream: most_turns(
                    model.gap,
                    seed=plan.seed,
                    stream=stream,
                    open_s=plan.ramp_s + plan.steady_s - opening(stream, model.count, plan.ramp_s),
                )
                for stream in plan.mine(model.count)
            }
        )

    async def drive(self, context: Context, times: Times) -> None:
        """Open the streams over the ramp; each speaks until the window ends."""
        await together(
            self.converse(context, times, stream, repeat(None)) for stream in context.plan.mine(self._model.count)
        )

    async def converse(
        self, context: Context, times: Times, stream: int, interruptions: Iterator[float | None]
    ) -> None:
        """One stream, from its opening to the end of the window. A failed turn is recorded, and the caller goes on.

        Args:
            context: of the point.
            times: of its phases.
            stream: which one.
            interruptions: for each turn, seconds after which the caller interrupts it, or None.
        """
        plan, model = context.plan, self._model
        silences = gaps(model.gap, seed=plan.seed, stream=stream)
        intended = times.ramp + opening(stream, model.count, plan.ramp_s)
        while intended < times.drain:
            await context.sleep_until(intended)
            turn = await context.stock.next(stream)
            record = await context.sender.send(turn, intended, stream=stream, interrupt_s=next(interruptions))
            intended = record.done_s + next(silences)
