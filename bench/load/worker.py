"""What one of several client processes does: its shard of a point, as its parent tells it."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Literal, TypeAlias

from bench.load.context import Times, unless_stopped
from bench.load.point import PointRun
from bench.load.quiet import undisturbed
from bench.load.ready import ReadyPoint
from bench.load.selfcheck import SelfSamples
from bench.load.target import Clients
from bench.records import RequestRecord

if TYPE_CHECKING:
    from bench.load.clock import RunClock
    from bench.load.plan import PointPlan
    from bench.load.source import TurnSource
    from bench.load.target import Target


@dataclass(frozen=True, slots=True)
class Prepared:
    """The turns are ready."""


@dataclass(frozen=True, slots=True)
class Primed:
    """The priming turns were answered."""


Command: TypeAlias = Literal["prime", "stop"] | Times
"""What a parent tells a process."""

Message: TypeAlias = Prepared | Primed | SelfSamples | Exception
"""What a process tells its parent, besides its records."""


def work(
    connection: Connection, plan: PointPlan, make_source: Callable[[], TurnSource], target: Target, clock: RunClock
) -> None:
    """The process: prepare, then do as told until told to stop, or until the parent is gone."""
    outbox: queue.SimpleQueue[Message | RequestRecord | None] = queue.SimpleQueue()
    mail = threading.Thread(target=_deliver, args=(connection, outbox))
    mail.start()
    try:
        asyncio.run(_work(connection, outbox, plan, make_source(), target, clock))
    except Exception as error:  # noqa: BLE001  the parent raises it
        outbox.put(error)
    finally:
        outbox.put(None)
        mail.join()
        connection.close()


def _deliver(connection: Connection, outbox: queue.SimpleQueue[Message | RequestRecord | None]) -> None:
    """Send in a thread: a parent that is busy with its disk must not stop the clock of this process."""
    while (message := outbox.get()) is not None:
        try:
            connection.send(message)
        except OSError:
            return  # the parent is gone; the work ends by that, too


async def _work(  # noqa: PLR0913, PLR0917  as `work`, and where its messages go
    connection: Connection,
    outbox: queue.SimpleQueue[Message | RequestRecord | None],
    plan: PointPlan,
    source: TurnSource,
    target: Target,
    clock: RunClock,
) -> None:
    loop = asyncio.get_running_loop()
    commands: asyncio.Queue[Command] = asyncio.Queue()
    stop = asyncio.Event()

    def hear() -> None:
        try:
            command = connection.recv()
        except (EOFError, OSError):
            command = "stop"
        if command == "stop":
            loop.remove_reader(connection.fileno())
            stop.set()
        else:
            commands.put_nowait(command)

    async def obey(point: PointRun) -> None:
        outbox.put(Prepared())
        while True:
            command = await commands.get()
            if isinstance(command, Times):
                with undisturbed():
                    outbox.put(await point.drive(command))
            else:
                await point.prime()
                outbox.put(Primed())

    loop.add_reader(connection.fileno(), hear)
    with ReadyPoint(plan, source) as ready:
        await unless_stopped(ready.prepare(), stop)
        if stop.is_set():
            return
        async with Clients(target, clock) as client, PointRun(ready, client, clock, outbox.put) as point:
            await unless_stopped(obey(point), stop)
