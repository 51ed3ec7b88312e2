"""The servers of a load, and the client that sends each turn to the right one."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

from bench.affinity import replica_of
from bench.load.http import Client

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from bench.load.clock import RunClock
    from bench.load.connection import Call
    from bench.load.reply import Exchange, OnChoice
    from bench.load.wire import Wire
    from bench.servers import Server
    from bench.workload.turn import Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Who shall answer.

    Attributes:
        servers: the replicas of an engine, in their order; one in the usual case.
        ranks_each: data-parallel ranks of each.
        request_timeout_s: a reply is given up so long after its intended send time.
    """

    servers: tuple[Server, ...]
    request_timeout_s: float
    ranks_each: int = 1


class TurnClient(Protocol):
    """Sends turns, as `bench.load.http.Client` does to one server."""

    wire: Wire

    def send(
        self,
        turn: Turn,
        intended_s: float,
        on_end: Callable[[Exchange], None],
        *,
        rank: int | None = None,
        on_choice: OnChoice | None = None,
    ) -> Call:
        """Send a turn now."""
        ...

    async def exchange(
        self, turn: Turn, intended_s: float, *, rank: int | None = None, on_choice: OnChoice | None = None
    ) -> Exchange:
        """Send a turn now and wait for its end."""
        ...


class Clients:
    """Sends every turn to the server of its rank. Use as an async context manager, in the loop that runs it.

    Args:
        target: the servers.
        clock: of the run.

    Attributes:
        wire: what the connections to all servers share.

    Raises:
        UsageError: one of them has no URL of a server, or not a key.
    """

    def __init__(self, target: Target, clock: RunClock) -> None:
        self._ranks_each = target.ranks_each
        self._clients = [
            Client(server.base_url, clock=clock, request_timeout_s=target.request_timeout_s, api_key=server.api_key)
            for server in target.servers
        ]
        self._stack = AsyncExitStack()
        self.wire: Wire

    async def __aenter__(self) -> Self:
        """Look the hosts up.

        Raises:
            StreamproofError: no such host.
        """
        async with AsyncExitStack() as stack:
            for client in self._clients:
                await stack.enter_async_context(client)
            # What arrives from all of them in one turn of the loop is stamped before any of it is parsed.
            self.wire = self._clients[0].wire
            for client in self._clients:
                client.wire = self.wire
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close every connection."""
        await self._stack.aclose()

    def send(
        self,
        turn: Turn,
        intended_s: float,
        on_end: Callable[[Exchange], None],
        *,
        rank: int | None = None,
        on_choice: OnChoice | None = None,
    ) -> Call:
        """As `bench.load.http.Client.send`; ranks are counted through all servers (`bench.affinity`)."""
        replica, own = replica_of(rank, self._ranks_each)
        return self._clients[replica].send(turn, intended_s, on_end, rank=own, on_choice=on_choice)

    async def exchange(
        self, turn: Turn, intended_s: float, *, rank: int | None = None, on_choice: OnChoice | None = None
    ) -> Exchange:
        """As `bench.load.http.Client.exchange`, likewise."""
        replica, own = replica_of(rank, self._ranks_each)
        return await self._clients[replica].exchange(turn, intended_s, rank=own, on_choice=on_choice)
