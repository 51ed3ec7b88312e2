"""Barge-in: the caller talks over the reply, the application closes the connection, the engine should stop generating.

Whether it does shows in its counters (generation tokens, aborted requests), not here.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.errors import UsageError
from bench.load.context import Context, Times, together
from bench.load.plan import BargeIn, PointPlan
from bench.load.stock import Stock
from bench.load.streams import StreamsLoad
from bench.seeds import generator


class BargeInLoad:
    """Streams, some of whose replies are interrupted."""

    def __init__(self, model: BargeIn) -> None:
        low, high = model.after_s
        if not 0 <= model.share <= 1 or not 0 <= low <= high:
            raise UsageError(
                f"barge-in of a share of {model.share:g} after {low:g} to {high:g} s",
                remedy="Give a share from 0 to 1, and two times of 0 s or more, the lower one first.",
            )
        self._model = model
        self._streams = StreamsLoad(model.streams)

    async def prepare(self, plan: PointPlan, stock: Stock) -> None:
        """As many turns as without interruptions and with instant replies: an interruption saves no turn."""
        await self._streams.prepare(plan, stock)

    async def drive(self, context: Context, times: Times) -> None:
        """As the streams, with interruptions."""
        await together(
            self._streams.converse(context, times, stream, self._interruptions(context.plan.seed, stream))
            for stream in context.plan.mine(self._model.streams.count)
        )

    def _interruptions(self, seed: int, stream: int) -> Iterator[float | None]:
        random = generator(seed, "barge-in", stream)
        while True:
            interrupted = random.random() < self._model.share
            after = random.uniform(*self._model.after_s)
            yield after if interrupted else None
