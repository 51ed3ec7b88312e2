"""A point made ready: its load model and its turns, before there is a server to send them to."""

from __future__ import annotations

from typing import Self

from bench.load.bargein import BargeInLoad
from bench.load.closed import ClosedLoad
from bench.load.context import LoadModel
from bench.load.open import OpenLoad
from bench.load.plan import BargeIn, Closed, Model, Open, PointPlan, Replay, Streams
from bench.load.replay import ReplayLoad
from bench.load.source import TurnSource
from bench.load.stock import BeforeCall, Stock, at_once
from bench.load.streams import StreamsLoad


def load_model(model: Model) -> LoadModel:
    """What drives a plan's model.

    Raises:
        UsageError: the model's parameters make no load.
    """
    match model:
        case Streams():
            return StreamsLoad(model)
        case Closed():
            return ClosedLoad(model)
        case Open():
            return OpenLoad(model)
        case Replay():
            return ReplayLoad(model)
        case BargeIn():
            return BargeInLoad(model)


class ReadyPoint:
    """Use as a context manager: leaving it ends a preparation that is under way.

    Args:
        plan: of the point.
        source: where its turns come from.
        before_call: see `Stock`.

    Attributes:
        plan: as given.
        model: drives the load.
        stock: the turns.

    Raises:
        UsageError: the model's parameters make no load.
    """

    def __init__(self, plan: PointPlan, source: TurnSource, *, before_call: BeforeCall = at_once) -> None:
        self.plan = plan
        self.model = load_model(plan.model)
        self.stock = Stock(source, before_call=before_call)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End what is under way. Idempotent."""
        self.stock.__exit__()

    async def prepare(self) -> None:
        """Make the turns that the point will need.

        Raises:
            UsageError: the source has no turns for what the model asks.
        """
        await self.model.prepare(self.plan, self.stock)
