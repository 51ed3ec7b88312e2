"""One operating point on several client processes of this host.

Each process has its own loop, connections and share of the streams; all are on the run's clock, which one host's
processes share. Raw records come back and are merged; whatever is computed is computed once, from all of them. One
process primes, all begin the ramp at the same moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import multiprocessing
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeAlias

from bench.load.context import unless_stopped
from bench.load.plan import BargeIn, Closed, Open, PointPlan, Replay, Shard, Streams
from bench.load.point import OnPhase
from bench.load.team import Kind, Mailbox, lead
from bench.load.worker import Command, work
from bench.signals import out_of_reach_of_ctrl_c

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

    from bench.load.clock import RunClock
    from bench.load.sender import OnRecord
    from bench.load.source import TurnSource
    from bench.load.target import Target

MakeSource: TypeAlias = "Callable[[], TurnSource]"

REQUESTS_PER_S: Final = 150.0
"""Of one process. A reply of 34 chunks costs about 1.5 ms, so this is a quarter of a core: beyond that, chunks that
come together begin to wait for each other."""

LEAD_S: Final = 0.5
"""Between the decision to begin and the ramp: every process has heard of it and set its streams up."""

FAREWELL_S: Final = 5.0
"""A process that was told to stop and has not ended by then is killed."""


def processes_for(plan: PointPlan, cores: int) -> int:
    """How many client processes a point needs, with one core left to everything else; from the most that can arrive."""
    match plan.model:
        case Streams() as streams:
            rate = streams.count / streams.gap.mean_s
        case BargeIn(streams=streams):
            rate = streams.count / streams.gap.mean_s
        case Closed() as closed:
            rate = closed.count / closed.fastest_reply_s
        case Open() as arrivals:
            rate = arrivals.rate
        case Replay() as trace:
            rate = trace.rate
    return max(1, min(cores - 1, math.ceil(rate / REQUESTS_PER_S)))


async def run_point_on(  # noqa: PLR0913, PLR0917  the parts of `run_point`, and two more
    processes: int,
    plan: PointPlan,
    make_source: MakeSource,
    target: Target,
    clock: RunClock,
    on_record: OnRecord,
    on_phase: OnPhase,
    stop: asyncio.Event,
) -> None:
    """As `bench.load.point.run_point`, on several processes.

    Args:
        processes: how many.
        plan: of the whole point.
        make_source: makes the same source in each process; it is pickled.
        target: the servers.
        clock: of the run.
        on_record: as there; called in this process.
        on_phase: likewise.
        stop: likewise.

    Raises:
        UsageError, StreamproofError: as there; also if a process ended before its work.
    """
    async with contextlib.AsyncExitStack() as stack:
        team = [
            await stack.enter_async_context(
                _Process(replace(plan, shard=Shard(index=index, of=processes)), make_source, target, clock, on_record)
            )
            for index in range(processes)
        ]
        await unless_stopped(lead(team, plan, clock, on_phase, lead_s=LEAD_S), stop)


class _Process:
    """A client process, as its parent sees it. Leaving the context stops it and takes the records it still has."""

    def __init__(
        self, plan: PointPlan, make_source: MakeSource, target: Target, clock: RunClock, on_record: OnRecord
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._theirs: Connection = theirs
        self._process: SpawnProcess = context.Process(
            target=work, args=(theirs, plan, make_source, target, clock), daemon=True
        )
        self._mailbox = Mailbox(f"client process {plan.shard.index + 1} of {plan.shard.of}", on_record)

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._start)
        self._theirs.close()
        asyncio.get_running_loop().add_reader(self._ours.fileno(), self._readable)
        return self

    def _start(self) -> None:
        with out_of_reach_of_ctrl_c():
            self._process.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.tell("stop")
        try:
            async with asyncio.timeout(FAREWELL_S):
                await self._mailbox.ended.wait()
        except TimeoutError:
            self._process.kill()
            await self._mailbox.ended.wait()
        await asyncio.to_thread(self._process.join)
        self._process.close()
        self._ours.close()
        if self._mailbox.failure is not None and kind in (None, asyncio.CancelledError):
            raise self._mailbox.failure

    def tell(self, command: Command) -> None:
        """Give it a command; one that has ended does not hear it."""
        with contextlib.suppress(OSError):
            self._ours.send(command)

    async def expect(self, kind: type[Kind]) -> Kind:
        """Its next message, which must be of this kind.

        Raises:
            Exception: the error that it met, or that `on_record` raised for one of its records.
        """
        return await self._mailbox.expect(kind)

    def _readable(self) -> None:
        try:
            while self._ours.poll():
                self._mailbox.put(self._ours.recv())
        except (EOFError, OSError):
            asyncio.get_running_loop().remove_reader(self._ours.fileno())
            self._mailbox.end("")
