"""A client on a host of a Ray cluster: starts a client process there and passes on what is said.

The process that measures is one of `bench.load.worker`, the same as on one host: Ray's own threads are in this process
and not in that one, so they delay no stamp.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import platform
import time
from typing import TYPE_CHECKING, Final

from bench.load.worker import Command, Message, work
from bench.signals import out_of_reach_of_ctrl_c

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

    from bench.load.clock import RunClock
    from bench.load.plan import PointPlan
    from bench.load.processes import MakeSource
    from bench.load.target import Target
    from bench.records import RequestRecord

AT_ONCE: Final = 2000
"""Messages in one answer: about a megabyte."""


class RayClient:
    """The actor. Several of its methods are called at the same time, each in a thread of its own."""

    def __init__(self) -> None:
        self._connection: Connection
        self._process: SpawnProcess

    def host(self) -> str:
        """Name of the host that it runs on."""
        return platform.node()

    def monotonic(self) -> float:
        """The monotonic clock of this host now, seconds."""
        return time.monotonic()

    def start(self, plan: PointPlan, make_source: MakeSource, target: Target, clock: RunClock) -> None:
        """Start the client process; see `bench.load.worker.work`."""
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=work, args=(theirs, plan, make_source, target, clock), daemon=True)
        with out_of_reach_of_ctrl_c():
            self._process.start()
        theirs.close()

    def tell(self, command: Command) -> None:
        """Pass a command on; a process that has ended does not hear it."""
        with contextlib.suppress(OSError):
            self._connection.send(command)

    def hear(self, wait_s: float) -> tuple[list[Message | RequestRecord], bool]:
        """What the process has said since the last call, waiting for the first of it; and whether that was all."""
        heard: list[Message | RequestRecord] = []
        try:
            while len(heard) < AT_ONCE and self._connection.poll(0 if heard else wait_s):
                heard.append(self._connection.recv())
        except (EOFError, OSError):
            return heard, True
        return heard, False

    def end(self, within_s: float) -> None:
        """Wait for the process to end, and kill it if it does not."""
        self._process.join(within_s)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
