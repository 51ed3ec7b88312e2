"""One operating point: prime, ramp, steady, drain; on one process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import product
from types import TracebackType
from typing import Final, Literal, Self, TypeAlias

from bench.affinity import prime_stream
from bench.load.alarm import Alarm
from bench.load.clock import RunClock
from bench.load.context import Context, Times, together, unless_stopped
from bench.load.plan import PointPlan
from bench.load.quiet import undisturbed
from bench.load.ready import ReadyPoint
from bench.load.refusal import refusal
from bench.load.selfcheck import SelfSamples, SelfWatch, observation
from bench.load.sender import OnRecord, Sender
from bench.load.source import TurnSource
from bench.load.target import TurnClient
from bench.observe.observations import ClientSelf, PhaseStarted
from bench.records import Outcome, RequestRecord

OnPhase: TypeAlias = Callable[[PhaseStarted | ClientSelf], None]
Phase: TypeAlias = Literal["prime", "ramp", "steady", "drain", "done"]

LEAD_S: Final = 0.25
"""Between the decision to begin and the ramp: ten thousand streams are set up in less."""

STOPPED: Final = "the run was stopped"


class PointRun:
    """The steps of one point in one process. Use as an async context manager."""

    def __init__(self, ready: ReadyPoint, client: TurnClient, clock: RunClock, on_record: OnRecord) -> None:
        self._plan = ready.plan
        self._model = ready.model
        self._stock = ready.stock
        self._clock = clock
        self._client = client
        self._on_record = on_record
        self._times: Times | None = None
        self._send_delays = SelfSamples().send_delays

    async def __aenter__(self) -> Self:
        self._alarm = Alarm()
        self._sender = Sender(self._client, self._clock, self._alarm, self._plan, self._recorded)
        self._context = Context(
            plan=self._plan, clock=self._clock, alarm=self._alarm, stock=self._stock, sender=self._sender
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Whatever is still open is given up and recorded."""
        try:
            self._sender.close(Outcome.CANCELLED, STOPPED)
        finally:
            self._alarm.close()

    async def prime(self) -> None:
        """Send the priming turns, one after the other, to every rank that streams are pinned to.

        Raises:
            StreamproofError: the server's reply shows that none will ever count.
        """
        turns = await self._stock.primes()
        for rank, turn in product(range(self._plan.ranks), turns):
            record = await self._sender.send(turn, self._clock.now(), stream=prime_stream(rank), primed=True)
            error = refusal(record)
            if error is not None:
                raise error

    async def drive(self, times: Times) -> SelfSamples:
        """The load, from the ramp to the end of the drain."""
        self._times = times
        at = self._clock.monotonic
        watch = SelfWatch(self._alarm, self._client.wire)
        self._stock.late = 0
        self._alarm.call_at(at(times.steady), watch.start)
        self._alarm.call_at(at(times.drain), watch.stop)
        give_up = self._alarm.call_at(
            at(times.end),
            lambda: self._sender.abandon_all(
                Outcome.TIMEOUT, f"still open {self._plan.drain_s:g} s after the window, when the drain ended"
            ),
        )
        await self._model.drive(self._context, times)
        give_up.cancel()
        # A load that ends before its window (a short trace) does not shorten it.
        await self._context.sleep_until(times.drain)
        watch.samples.send_delays = self._send_delays
        watch.samples.generated_late = self._stock.late
        return watch.samples

    async def announce(self, times: Times, started: Callable[[Phase, float], None]) -> None:
        """Say so when a phase begins, with its planned time."""
        phases: tuple[tuple[Phase, float], ...] = (
            ("ramp", times.ramp),
            ("steady", times.steady),
            ("drain", times.drain),
        )
        for phase, t in phases:
            await self._context.sleep_until(t)
            started(phase, t)

    def check(self) -> None:
        """Raise what `on_record` raised, if nobody has: records that the end of the point made may be the ones."""
        if self._sender.failure is not None:
            raise self._sender.failure

    def _recorded(self, record: RequestRecord) -> None:
        times = self._times
        if times is not None and record.sent_s is not None and times.steady <= record.intended_s < times.drain:
            self._send_delays.append(record.sent_s - record.intended_s)
        self._on_record(record)


async def run_point(  # noqa: PLR0913, PLR0917  these are its parts, none of them optional
    plan: PointPlan,
    source: TurnSource,
    client: TurnClient,
    clock: RunClock,
    on_record: OnRecord,
    on_phase: OnPhase,
    stop: asyncio.Event,
) -> None:
    """Run one operating point in this process, from the making of its turns.

    Args:
        plan: what to do.
        source: where the turns come from.
        client: see `run_ready`.
        clock: likewise.
        on_record: likewise.
        on_phase: likewise.
        stop: likewise.

    Raises:
        UsageError: the load's parameters or its trace are wrong.
        StreamproofError: see `run_ready`.
    """
    with ReadyPoint(plan, source) as ready:
        await unless_stopped(ready.prepare(), stop)
        await run_ready(ready, client, clock, on_record, on_phase, stop)


async def run_ready(  # noqa: PLR0913, PLR0917  as above
    ready: ReadyPoint,
    client: TurnClient,
    clock: RunClock,
    on_record: OnRecord,
    on_phase: OnPhase,
    stop: asyncio.Event,
) -> None:
    """Run one operating point, whose turns are ready, in this process.

    The phases: prime (what fills the prefix cache, one after the other), ramp, steady, drain, done; the load is not
    drained between ramp and steady. `PhaseStarted` carries the planned time of each phase: a request belongs to the
    window when `steady <= intended_s < drain`.

    Args:
        ready: the point; the caller closes it.
        client: open, on `clock`.
        clock: of the run.
        on_record: takes every record once, as its request ends; what it raises ends the point.
        on_phase: takes the phases as they begin, and `ClientSelf` after the last.
        stop: once set, open requests are recorded as CANCELLED at once, "done" is not observed, and the call returns.

    Raises:
        UsageError: the server's address is wrong.
        StreamproofError: the server's first reply shows that none will ever count; also whatever `on_record` raises.
    """
    if stop.is_set():
        return
    async with PointRun(ready, client, clock, on_record) as point:
        await unless_stopped(_phases(ready.plan, clock, point, on_phase), stop)
    point.check()


async def _phases(plan: PointPlan, clock: RunClock, point: PointRun, on_phase: OnPhase) -> None:
    def started(phase: Phase, t: float) -> None:
        on_phase(PhaseStarted(t=t, run=plan.run, point=plan.point, phase=phase))

    samples = SelfSamples()

    async def drive() -> None:
        nonlocal samples
        samples = await point.drive(times)

    started("prime", clock.now())
    await point.prime()
    with undisturbed():
        times = Times.of(plan, clock.now() + LEAD_S)
        await together((drive(), point.announce(times, started)))
    started("done", clock.now())
    on_phase(observation([samples], run=plan.run, point=plan.point, t=times.drain))
