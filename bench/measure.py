"""One run: the points of the ladder, one after the other, on one engine that is ready."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from bench.display import Display, PointProgress
from bench.engine.base import RunningEngine
from bench.engine.compiled import Since
from bench.engine.metrics import MetricsPage
from bench.load.ahead import Ahead
from bench.load.clock import RunClock
from bench.load.context import unless_stopped
from bench.load.point import run_ready
from bench.load.probe import Probe
from bench.load.processes import run_point_on
from bench.load.ray_shards import OnObserved, run_point_on_ray
from bench.load.sender import OnRecord
from bench.load.target import Clients, Target, TurnClient
from bench.observe.compiled import CompiledFile, CompiledFiles
from bench.observe.gpu import Gpus
from bench.observe.observations import ClientSelf, Counters, PhaseStarted, Probed, ShardClock
from bench.observe.sampler import Sampler
from bench.observe.wall_clock import TICK_S, WallClock
from bench.plan import RunPlan
from bench.recorder import Cause, Recorder, RunEnded
from bench.records import Outcome, RequestRecord
from bench.turns import PointJob

LOOK_EVERY_S: Final = 0.2
"""How often the engine is asked whether it lives and what its log said."""

UNREACHABLE_AFTER: Final = 5
"""Requests in a row without a connection: nobody listens there any more, and going on would only fill the disk."""

CAUSE_WITHIN_S: Final = 3.0
"""Requests fail at once when an engine dies; how it died, its process or Docker tells a little later."""


class Course(Protocol):
    """The points of a run: a ladder that is known beforehand, or a search."""

    @property
    def of(self) -> int | None:
        """How many points there are; None where nobody knows yet."""

    def jobs(self) -> Generator[tuple[PointJob, Ahead], None, None]:
        """Each point, with what makes it ready. Asking for the next one says that the last one is over."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One engine start and everything that measures it.

    Attributes:
        plan: what is run.
        run: index of the engine start.
        engine: ready.
        clock: of the whole job; its epoch is before the first engine start.
        recorder: takes what is measured.
        display: hears how it goes.
        course: the points.
        make_probe: makes what is asked before the first point and again after the last one.
        gpus: UUIDs of those that the engine uses; None where nobody knows, and all of this host are watched.
        ray: address of the Ray cluster whose hosts send the load; None for this host.
    """

    plan: RunPlan
    run: int
    engine: RunningEngine
    clock: RunClock
    recorder: Recorder
    display: Display
    course: Course
    make_probe: Callable[[], Probe]
    gpus: frozenset[str] | None = None
    ray: str | None = None


async def measure(run: Run) -> None:
    """Climbs the ladder.

    Raises:
        RunEnded: it ended before its time; what was measured is recorded.
        StreamproofError: the first replies show that none will ever count.
    """
    ended = _End()
    page = MetricsPage(*run.engine.servers)
    async with ended.on_signals(), _watched(run, page, ended), Clients(_target(run), run.clock) as client:
        probe = await asyncio.to_thread(run.make_probe)
        await _probe(run, probe, "before", client, page, ended)
        with closing(run.course.jobs()) as jobs:
            # In a thread: to find the next point of a search takes a moment, in which the engine is still watched.
            while (following := await asyncio.to_thread(next, jobs, None)) is not None:
                await _measure_point(run, *following, client, page, ended)
                if (reason := await ended.cause()) is not None:
                    raise reason
        await _probe(run, probe, "after", client, page, ended)


class _End:
    """Why the run ends early, once it does: the first reason counts, but a symptom gives way to its cause."""

    def __init__(self) -> None:
        self.reason: RunEnded | None = None
        self.stop = asyncio.Event()
        self._told = asyncio.Event()

    def now(self, cause: Cause, detail: str) -> None:
        if not self._told.is_set():
            self.reason = RunEnded(cause, detail)
        self._told.set()
        self.stop.set()

    def symptom(self, cause: Cause, detail: str) -> None:
        """As `now`; whatever is told within `CAUSE_WITHIN_S` takes its place."""
        if self.reason is None:
            self.reason = RunEnded(cause, detail)
        self.stop.set()

    async def cause(self) -> RunEnded | None:
        """Why it ended, its cause rather than a symptom; None while it goes on."""
        if self.reason is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._told.wait(), CAUSE_WITHIN_S)
        return self.reason

    @asynccontextmanager
    async def on_signals(self) -> AsyncIterator[None]:
        """While this is entered, Ctrl-C and SIGTERM end the run in good order."""
        loop = asyncio.get_running_loop()
        signals = (signal.SIGINT, signal.SIGTERM)
        for number in signals:
            loop.add_signal_handler(number, self.now, "user", f"stopped by {number.name}")
        try:
            yield
        finally:
            for number in signals:
                loop.remove_signal_handler(number)


def _target(run: Run) -> Target:
    recipe = run.plan.recipe
    return Target(
        servers=run.engine.servers, ranks_each=recipe.ranks_each, request_timeout_s=recipe.load.request_timeout_s
    )


@asynccontextmanager
async def _watched(run: Run, page: MetricsPage, ended: _End) -> AsyncIterator[None]:
    """Events and samples are recorded as they come; the engine's death ends the run."""

    async def watch(sampler: Sampler) -> None:
        while True:
            try:
                death = _record_news(run, sampler)
                if death is not None:
                    ended.now("engine", death)
                    return
            except RunEnded as full:
                ended.now(full.cause, full.detail)
                return
            await asyncio.sleep(LOOK_EVERY_S)

    with Gpus(run.gpus) as gpus, Sampler(run=run.run, clock=run.clock.now, page=page, gpus=gpus) as sampler:
        watching = asyncio.create_task(watch(sampler))
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.wait((watching,))


def _record_news(run: Run, sampler: Sampler) -> str | None:
    """Records what engine and sampler have to tell; how the engine died, if it did."""
    events = run.engine.events()
    for observation in (*events, *run.engine.graph_tables(), *sampler.take()):
        run.recorder.observe(observation)
    died = next((event for event in events if event.event == "died"), None)
    if died is None:
        return None
    return f"{'the engine' if died.replica is None else f'replica {died.replica}'} died: {died.line}"


async def _probe(  # noqa: PLR0913, PLR0917  as `_measure_point`
    run: Run, probe: Probe, when: Literal["before", "after"], client: TurnClient, page: MetricsPage, ended: _End
) -> None:
    """The same requests before and after others; nothing else is sent meanwhile."""
    run.display.note(f"probe {when} the ladder: does the same request get the same answer?")
    at_begin = await asyncio.to_thread(page.settled_counters)
    began_s = run.clock.now()

    async def ask() -> None:
        trials = await probe.ask(client, run.clock)
        at_end = await asyncio.to_thread(page.settled_counters)
        run.recorder.observe(
            Probed(
                t=run.clock.now(),
                run=run.run,
                when=when,
                began_s=began_s,
                at_begin=at_begin,
                at_end=at_end,
                trials=trials,
            )
        )
        run.recorder.sync()

    await unless_stopped(ask(), ended.stop)
    if (reason := await ended.cause()) is not None:
        raise reason


async def _measure_point(  # noqa: PLR0913, PLR0917  a point, and all that measures it
    run: Run, job: PointJob, ahead: Ahead, client: TurnClient, page: MetricsPage, ended: _End
) -> None:
    load, point, of = run.plan.recipe.load, job.plan.point, run.course.of
    progress = PointProgress(
        number=run.run * (of or 0) + point + 1,
        of=None if of is None else load.runs * of,
        label=job.label,
        planned_s=load.ramp_s + load.steady_s,
    )
    run.display.point(progress)
    unreachable = 0
    began_s = run.clock.now()
    steady_s = began_s

    def on_record(record: RequestRecord) -> None:
        nonlocal unreachable
        run.recorder.record(record)
        progress.add(record)
        unreachable = unreachable + 1 if record.outcome is Outcome.CONNECT else 0
        if unreachable == UNREACHABLE_AFTER:
            ended.symptom("engine", f"the server no longer answers: {record.error}")

    def on_phase(observation: PhaseStarted | ClientSelf | ShardClock) -> None:
        nonlocal steady_s
        run.recorder.observe(observation)
        if isinstance(observation, PhaseStarted):
            progress.enter(observation)
            if observation.phase == "steady":
                steady_s = observation.t

    async def count(when: str) -> None:
        values = await asyncio.to_thread(page.settled_counters)
        run.recorder.observe(
            Counters.model_validate(
                {"t": run.clock.now(), "run": run.run, "point": point, "when": when, "values": values}
            )
        )

    await count("before")
    await _load(run, job, ahead, client, on_record, on_phase, ended.stop)
    if ended.reason is None:
        await count("after")
        for look in await asyncio.to_thread(_compiled, run, point, began_s, steady_s):
            run.recorder.observe(look)
        run.recorder.sync()
    run.display.point_done(progress)


def _compiled(run: Run, point: int, began_s: float, steady_s: float) -> list[CompiledFiles]:
    """What the engine's caches show of a point that is over: its drain too, so that the look disturbs nothing."""
    wall = WallClock.read(run.clock.now)
    looks = run.engine.compiled_since(Since(written=wall.of(began_s) - TICK_S, first=wall.of(steady_s) - TICK_S))
    return [
        CompiledFiles(
            t=run.clock.now(),
            run=run.run,
            point=point,
            since=began_s,
            count=look.count,
            files=tuple(
                CompiledFile(t=wall.on_run(written), cache=cache, path=path) for written, cache, path in look.files
            ),
            why_not=look.why_not,
            replica=look.replica,
        )
        for look in looks
    ]


async def _load(  # noqa: PLR0913, PLR0917  the parts of `run_point`
    run: Run,
    job: PointJob,
    ahead: Ahead,
    client: TurnClient,
    on_record: OnRecord,
    on_phase: OnObserved,
    stop: asyncio.Event,
) -> None:
    """The load of one point: from this process, from as many of this host as it needs, or from a Ray cluster."""
    load = (job.plan, job.source, _target(run), run.clock, on_record, on_phase, stop)
    if run.ray is not None:
        await run_point_on_ray(run.ray, run.plan.recipe.load.client_processes or 0, *load)
        return
    if job.processes > 1:
        await run_point_on(job.processes, *load)
        return

    async def take_and_run() -> None:
        with await ahead.take(job.plan.point) as ready:
            await run_ready(ready, client, run.clock, on_record, on_phase, stop)

    try:
        await unless_stopped(take_and_run(), stop)
    finally:
        ahead.go_on()
