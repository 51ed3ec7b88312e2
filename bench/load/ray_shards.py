"""One operating point from several hosts, over a Ray cluster that is already there.

Each shard is a client process on some host of the cluster with its share of the streams. It measures with its own
monotonic clock, whose epoch is set to the run's once, before the point: a latency is a difference on one clock. Raw
records come back and are merged; whatever is computed is computed once, from all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import platform
import signal
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias
from urllib.parse import urlsplit

import bench
import recipes
from bench.errors import StreamproofError, UsageError
from bench.load.clock import RunClock
from bench.load.context import unless_stopped
from bench.load.plan import PointPlan, Shard
from bench.load.processes import FAREWELL_S, MakeSource, processes_for
from bench.load.ray_actor import RayClient
from bench.load.team import Kind, Mailbox, lead
from bench.observe.observations import ClientSelf, PhaseStarted, ShardClock

if TYPE_CHECKING:
    from bench.load.sender import OnRecord
    from bench.load.target import Target
    from bench.load.worker import Command
    from bench.servers import Server

OnObserved: TypeAlias = Callable[[PhaseStarted | ClientSelf | ShardClock], None]

LEAD_S: Final = 2.0
"""Between the decision to begin and the ramp: a command reaches another host through Ray in well under a second."""

CONNECT_S: Final = 5.0
"""For a connection to the cluster's head."""

EXCHANGES: Final = 20
"""Readings of another host's clock; the one with the shortest round trip counts."""

START_S: Final = 60.0
"""A client that a cluster has not started by then waits for CPUs that others hold."""

HEAR_S: Final = 1.0
"""An actor answers after this long, even when its process has said nothing."""

THREADS: Final = 4
"""Of an actor: one that hears, one that tells, and two to spare."""


async def run_point_on_ray(  # noqa: PLR0913, PLR0917  the parts of `run_point`, and three more
    address: str,
    processes: int,
    plan: PointPlan,
    make_source: MakeSource,
    target: Target,
    clock: RunClock,
    on_record: OnRecord,
    on_observed: OnObserved,
    stop: asyncio.Event,
) -> None:
    """As `bench.load.processes.run_point_on`, on the hosts of a Ray cluster.

    Args:
        address: of the cluster, as `ray.init` takes it ("10.0.0.1:6379", "auto", "ray://..." is not one).
        processes: how many, over all hosts; 0 for as many as it needs, one on every host at least.
        plan: of the whole point.
        make_source: makes the same source in each process; it is pickled.
        target: the servers, at addresses that every host can reach.
        clock: of the run.
        on_record: takes every record once; called in this process.
        on_observed: takes the phases as they begin, `ClientSelf` after the last, and the clock of every shard.
        stop: once set, open requests are recorded as CANCELLED at once, "done" is not observed, and the call returns.

    Raises:
        UsageError: there is no such cluster, or Ray is not installed; also as `run_point_on`.
        StreamproofError: the cluster has too few CPUs; also as `run_point_on`.
    """
    with _cluster(address) as ray:
        alive = [node for node in ray.nodes() if node["Alive"]]
        _refuse_unreachable(target.servers, [node["NodeManagerHostname"] for node in alive])
        nodes = _places(alive, processes, plan)
        async with contextlib.AsyncExitStack() as stack:
            parts = [replace(plan, shard=Shard(index=index, of=len(nodes))) for index in range(len(nodes))]
            # All actors are asked for before the first is waited for: they start side by side.
            team = [_Member(ray, node, part, clock, on_record) for node, part in zip(nodes, parts, strict=True)]
            for member in team:
                await stack.enter_async_context(member)
            for member in team:
                member.start(make_source, target)
            await unless_stopped(lead(team, plan, clock, on_observed, lead_s=LEAD_S), stop)
            for member in team:
                on_observed(await member.clock_seen())


@contextmanager
def _cluster(address: str) -> Iterator[Any]:
    """The `ray` module, connected; our code travels to the hosts."""
    # Started by `uv run`, Ray would start its workers by it, too; the hosts bring an environment of their own.
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    try:
        ray = importlib.import_module("ray")
    except ImportError:
        raise UsageError(
            "the load shall come from a Ray cluster, and Ray is not installed here",
            remedy="Install the extra: uv sync --extra ray.",
        ) from None
    if address in ("", "local"):
        raise UsageError(
            f"{address!r} is no address of a Ray cluster",
            remedy='Give host:port of its head ("10.0.0.1:6379"), or "auto" on one of its hosts.',
        )
    try:
        _refuse_silence(address)
    except OSError as error:
        raise _no_cluster(address, error) from error
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    modules = [str(Path(next(iter(package.__path__)))) for package in (bench, recipes)]
    try:
        ray.init(
            address=address,
            runtime_env={"py_modules": modules},
            log_to_driver=False,
            logging_level="ERROR",
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise _no_cluster(address, error) from error
    finally:
        for number, handler in handlers.items():  # Ray takes SIGTERM; it is ours
            signal.signal(number, handler)
    try:
        yield ray
    finally:
        ray.shutdown()


def _refuse_silence(address: str) -> None:
    """Ray itself would try for minutes where nothing listens.

    Raises:
        OSError: nothing does.
    """
    host, colon, port = address.rpartition(":")
    if colon and port.isdecimal() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_S).close()


def _no_cluster(address: str, error: Exception) -> UsageError:
    return UsageError(
        f"no Ray cluster answers at {address}: {_line(error)}",
        remedy="Start one (`ray start --head` on one host, `ray start --address=HOST:PORT` on the others), with the "
        "same Python and the same version of Ray as here.",
    )


def _refuse_unreachable(servers: Iterable[Server], hosts: Sequence[str]) -> None:
    """An address of this host alone is no address for other hosts."""
    others = sorted(set(hosts) - {platform.node()})
    names = {server.base_url: urlsplit(server.base_url).hostname or "" for server in servers}
    mine = [url for url, name in names.items() if name in {"localhost", "::1"} or name.startswith("127.")]
    if others and mine:
        raise UsageError(
            f"the server's address {mine[0]} means another machine on {others[0]} than here",
            remedy="Let the server listen on an address that the cluster's hosts can reach, and give that with "
            "--base-url.",
        )


def _places(nodes: Sequence[Mapping[str, Any]], processes: int, plan: PointPlan) -> list[str]:
    """The node of each shard: one on every node, then a second one, and so on, as far as their CPUs go."""
    cpus = {node["NodeID"]: int(node["Resources"].get("CPU", 0)) for node in nodes}
    most = max(cpus.values(), default=0)
    free = [node for level in range(most) for node in sorted(cpus) if cpus[node] > level]
    wanted = processes or max(processes_for(plan, len(free) + 1), sum(count > 0 for count in cpus.values()))
    if not 0 < wanted <= len(free):
        raise StreamproofError(
            f"the Ray cluster has {len(free)} CPUs, and the load needs {max(1, wanted)} client processes",
            remedy="Add hosts to the cluster, or lower load.client_processes.",
        )
    return free[:wanted]


@dataclass(frozen=True, slots=True)
class _Reading:
    """Another host's monotonic clock minus ours, seconds, with its uncertainty either way."""

    offset_s: float
    uncertainty_s: float


class _Member:
    """A shard, as its leader sees it. Leaving the context stops it and takes the records it still has."""

    def __init__(self, ray: Any, node: str, plan: PointPlan, clock: RunClock, on_record: OnRecord) -> None:  # noqa: ANN401  Ray is optional, and so are its types
        strategies = importlib.import_module("ray.util.scheduling_strategies")
        place = strategies.NodeAffinitySchedulingStrategy(node_id=node, soft=False)
        options = {"num_cpus": 1, "max_concurrency": THREADS, "scheduling_strategy": place}
        self._ray = ray
        self._actor = ray.remote(RayClient).options(**options).remote()
        self._plan = plan
        self._clock = clock
        self._name = f"client {plan.shard.index + 1} of {plan.shard.of}"
        self._mailbox = Mailbox(f"{self._name} on the Ray cluster", on_record)
        self._started = False

    async def __aenter__(self) -> Self:
        try:
            async with asyncio.timeout(START_S):
                self._host = await self._actor.host.remote()
                self._before = await self._read_clock()
        except TimeoutError:
            self._ray.kill(self._actor)
            raise StreamproofError(
                f"the Ray cluster has not started {self._name} within {START_S:g} s",
                remedy="Other jobs hold its CPUs: end them, or lower load.client_processes.",
            ) from None
        except self._ray.exceptions.RayError as error:
            raise StreamproofError(
                f"{self._name} cannot be started on the Ray cluster: {_line(error)}",
                remedy="Its hosts need this project's dependencies in the same Python as here.",
            ) from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._started:
            self.tell("stop")
            with contextlib.suppress(TimeoutError, self._ray.exceptions.RayError):
                async with asyncio.timeout(FAREWELL_S):
                    await self._mailbox.ended.wait()
                    await self._actor.end.remote(FAREWELL_S)
            self._hearing.cancel()
            await asyncio.wait((self._hearing,))
        self._ray.kill(self._actor)
        if self._mailbox.failure is not None and kind in (None, asyncio.CancelledError):
            raise self._mailbox.failure

    def start(self, make_source: MakeSource, target: Target) -> None:
        """Start its client process."""
        # The run's epoch on the clock of that host.
        theirs = RunClock(epoch=self._clock.epoch + self._before.offset_s, epoch_wall=self._clock.epoch_wall)
        self._starting = self._actor.start.remote(self._plan, make_source, target, theirs)
        self._hearing = asyncio.create_task(self._hear())
        self._started = True

    def tell(self, command: Command) -> None:
        """Give it a command; one that has ended does not hear it."""
        self._actor.tell.remote(command)

    async def expect(self, kind: type[Kind]) -> Kind:
        """Its next message, which must be of this kind.

        Raises:
            Exception: the error that it met, or that `on_record` raised for one of its records.
        """
        return await self._mailbox.expect(kind)

    async def clock_seen(self) -> ShardClock:
        """How its clock was set, and how far it went since."""
        try:
            after: _Reading | None = await self._read_clock()
        except self._ray.exceptions.RayError:
            after = None
        return ShardClock(
            t=self._clock.now(),
            run=self._plan.run,
            point=self._plan.point,
            shard=self._plan.shard.index,
            host=self._host,
            offset_s=self._before.offset_s,
            uncertainty_s=self._before.uncertainty_s,
            drift_s=None if after is None else after.offset_s - self._before.offset_s,
        )

    async def _read_clock(self) -> _Reading:
        readings = []
        for _ in range(EXCHANGES):
            before = self._clock.now()
            theirs = await self._actor.monotonic.remote()
            after = self._clock.now()
            ours = self._clock.monotonic((before + after) / 2)
            readings.append(_Reading(theirs - ours, (after - before) / 2))
        return min(readings, key=lambda reading: reading.uncertainty_s)

    async def _hear(self) -> None:
        """Take what it says, until it has ended."""
        try:
            await self._starting
            ended = False
            while not ended:
                messages, ended = await self._actor.hear.remote(HEAR_S)
                for message in messages:
                    self._mailbox.put(message)
            self._mailbox.end("")
        except self._ray.exceptions.RayError as error:
            self._mailbox.end(f": {_line(error)}")


def _line(error: BaseException) -> str:
    return str(error).strip().splitlines()[-1][:200] if str(error).strip() else type(error).__name__
