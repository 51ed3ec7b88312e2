"""One operating point against the reference server, and what it gave: for the tests of points."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from bench.load.clock import RunClock
from bench.load.http import Client
from bench.load.plan import Model, PointPlan, Streams
from bench.load.point import run_point
from bench.observe.observations import ClientSelf, PhaseStarted
from bench.records import Outcome, RequestRecord
from recipes.schema import TurnGap
from tests.truth.workload import TruthSource

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.workload.turn import Turn

GAP = TurnGap(distribution="exponential", mean_s=0.05)
STREAMS = Streams(count=6, gap=GAP)
RAMP_S, STEADY_S = 0.2, 0.4


def plan_of(model: Model, **changes: Any) -> PointPlan:
    plan = PointPlan(
        point=2,
        run=1,
        seed=7,
        model=model,
        ramp_s=RAMP_S,
        steady_s=STEADY_S,
        drain_s=10.0,
        request_timeout_s=20.0,
    )
    return replace(plan, **changes)


@dataclass
class Seen:
    """What a point gave."""

    records: list[RequestRecord] = field(default_factory=list)
    phases: dict[str, float] = field(default_factory=dict)
    client: ClientSelf | None = None
    clock: RunClock = field(default_factory=RunClock.start)

    @property
    def load(self) -> list[RequestRecord]:
        return sorted((record for record in self.records if not record.primed), key=lambda record: record.request)

    @property
    def window(self) -> list[RequestRecord]:
        return [record for record in self.load if self.phases["steady"] <= record.intended_s < self.phases["drain"]]

    def outcomes(self) -> set[Outcome]:
        return {record.outcome for record in self.load}

    def by_stream(self) -> dict[int, list[RequestRecord]]:
        streams: dict[int, list[RequestRecord]] = defaultdict(list)
        for record in self.load:
            streams[record.stream].append(record)
        return streams


def run(
    base_url: str,
    plan: PointPlan,
    source: TruthSource,
    *,
    also: Callable[[RequestRecord], None] = lambda _: None,
    stop_if: Callable[[RequestRecord], bool] = lambda _: False,
    seen: Seen | None = None,
) -> Seen:
    seen = Seen() if seen is None else seen

    async def main() -> None:
        clock = seen.clock
        stop = asyncio.Event()

        def on_record(record: RequestRecord) -> None:
            seen.records.append(record)
            also(record)
            if stop_if(record):
                stop.set()

        def on_phase(observed: PhaseStarted | ClientSelf) -> None:
            assert (observed.point, observed.run) == (plan.point, plan.run)
            if isinstance(observed, PhaseStarted):
                seen.phases[observed.phase] = observed.t
            else:
                seen.client = observed

        async with Client(base_url, clock=clock, request_timeout_s=plan.request_timeout_s) as client:
            await run_point(plan, source, client, clock, on_record, on_phase, stop)

    asyncio.run(main())
    return seen


def tag_of(source: TruthSource, record: RequestRecord) -> str:
    if record.primed:
        return f"{source.point}/prime/{record.agent}"
    return f"{source.point}/{record.stream}/{record.conversation}/{record.turn}"


_points = count(1)


def next_point() -> int:
    """The number of a point whose tags no other test has."""
    return next(_points)


def fresh(**parts: Any) -> TruthSource:
    """A source whose tags no other test has."""
    return TruthSource(point=next_point(), **parts)


class Unprimed(TruthSource):
    def primes(self) -> Sequence[Turn]:
        return []
