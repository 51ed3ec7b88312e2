"""The client that measures: HTTP/1.1 with kept connections, one request and one reply at a time on each."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from bench.affinity import RANK_HEADER
from bench.errors import StreamproofError, UsageError
from bench.load.clock import RunClock
from bench.load.connection import Call, Connection
from bench.load.reply import Exchange, OnChoice, ReplyReader
from bench.load.wire import Wire, stamp_arrivals
from bench.records import Outcome
from bench.workload.turn import Turn


class Client:
    """Sends turns to one server and measures the replies. Use as an async context manager, in the loop that runs it.

    There is no limit on connections: a cap would queue requests where nobody sees it. A connection that served a
    request is kept and used again, the last one first. If the server turns out to have closed a kept connection (no
    byte of a response came), the request is sent once more on a fresh one, and the time lost counts.

    Args:
        base_url: "http://HOST:PORT" or "https://...", with or without a path ("/v1" at its end belongs to the turns).
        clock: of the run.
        request_timeout_s: a reply is given up so long after its intended send time.
        api_key: sent as a bearer token; appears in no error.

    Attributes:
        wire: what the connections share; holds the kernel's certificate of our stamps.
        resent: requests that were sent a second time.

    Raises:
        UsageError: not a URL of a server, or not a key.
    """

    def __init__(self, base_url: str, *, clock: RunClock, request_timeout_s: float, api_key: str | None = None) -> None:
        self._url = _Url(base_url)
        self._clock = clock
        self._timeout_s = request_timeout_s
        self._api_key = _checked_key(api_key)
        self._ssl = ssl.create_default_context() if self._url.tls else None
        self._addresses: list[tuple[socket.AddressFamily, tuple[object, ...]]] = []
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()
        self._heads: dict[tuple[str, int | None], bytes] = {}
        self._loop: asyncio.AbstractEventLoop
        self.wire: Wire
        self.resent = 0

    async def __aenter__(self) -> Self:
        """Look the host up, once: a look-up per connection would count as latency.

        Raises:
            StreamproofError: no such host.
        """
        self._loop = asyncio.get_running_loop()
        self.wire = Wire()
        try:
            found = await self._loop.getaddrinfo(self._url.host, self._url.port, type=socket.SOCK_STREAM)
        except socket.gaierror as error:
            raise StreamproofError(
                f"the host {self._url.host!r} of the base URL cannot be found: {error}",
                remedy="Check --base-url, and that this machine can resolve that name.",
            ) from None
        self._addresses = [(family, address) for family, _, _, _, address in found]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close every connection."""
        for connection in list(self._open):
            connection.close()
        await asyncio.sleep(0)  # the transports close their sockets in the next turn of the loop

    def send(
        self,
        turn: Turn,
        intended_s: float,
        on_end: Callable[[Exchange], None],
        *,
        rank: int | None = None,
        on_choice: OnChoice | None = None,
    ) -> Call:
        """Send a turn now.

        Args:
            turn: what to send.
            intended_s: when the load model wanted it sent, seconds since the run's epoch.
            on_end: called exactly once, after this returned, when the request has ended in whatever way.
            rank: data-parallel rank that shall answer; None leaves that to the server.
            on_choice: see `ReplyReader`.

        Returns:
            A handle to give the request up.
        """
        reader = ReplyReader(
            prompt_tokens=turn.prompt_tokens,
            output_tokens=turn.output_tokens,
            secret=self._api_key,
            on_choice=on_choice,
        )
        call = Call(self._head(turn.path, rank) % len(turn.body) + turn.body, reader, on_end)
        deadline = self._clock.monotonic(intended_s + self._timeout_s)
        call.timer = self._loop.call_at(deadline, self._time_out, call)
        if self._idle:
            self._idle.pop().start(call)
        else:
            call.connecting = self._loop.create_task(self._connect(call))
        return call

    async def exchange(
        self, turn: Turn, intended_s: float, *, rank: int | None = None, on_choice: OnChoice | None = None
    ) -> Exchange:
        """Send a turn now and wait for its end; to be cancelled by cancelling the task that waits."""
        ended: asyncio.Future[Exchange] = self._loop.create_future()

        def end(exchange: Exchange) -> None:
            if not ended.done():
                ended.set_result(exchange)

        call = self.send(turn, intended_s, end, rank=rank, on_choice=on_choice)
        try:
            return await ended
        finally:
            call.abandon(Outcome.CANCELLED, "given up", self._clock.now())

    # what the connections tell (bench.load.connection.Pool)

    def made(self, connection: Connection) -> None:
        """Remember a connection."""
        self._open.add(connection)

    def idle(self, connection: Connection) -> None:
        """Keep a connection for the next request."""
        self._idle.append(connection)

    def gone(self, connection: Connection) -> None:
        """Forget a connection."""
        self._open.discard(connection)
        with contextlib.suppress(ValueError):
            self._idle.remove(connection)

    def again(self, call: Call) -> None:
        """Send a request once more, on a connection that no server can have closed yet."""
        self.resent += 1
        call.retried = True
        call.connecting = self._loop.create_task(self._connect(call))

    def _head(self, path: str, rank: int | None) -> bytes:
        head = self._heads.get((path, rank))
        if head is None:
            lines = [
                f"POST {self._url.prefix}{path} HTTP/1.1",
                f"host: {self._url.netloc}",
                "accept: text/event-stream",
                "content-type: application/json",
                "user-agent: streamproof",
            ]
            if self._api_key is not None:
                lines.append(f"authorization: Bearer {self._api_key}")
            if rank is not None:
                lines.append(f"{RANK_HEADER}: {rank}")
            text = "\r\n".join(lines).replace("%", "%%") + "\r\ncontent-length: %d\r\n\r\n"
            head = self._heads[path, rank] = text.encode("latin-1")
        return head

    def _time_out(self, call: Call) -> None:
        call.abandon(Outcome.TIMEOUT, f"no complete reply within {self._timeout_s:g} s", self._clock.now())

    async def _connect(self, call: Call) -> None:
        """Make a connection and send the call on it."""
        error: Exception | None = None
        for number, (family, address) in enumerate(self._addresses):
            try:
                connection = await self._connection(family, address)
            except OSError as failure:
                error = error or failure
                continue
            self._addresses.insert(0, self._addresses.pop(number))  # the next one begins with what worked
            call.connecting = None
            if call.ended:
                connection.close()
            else:
                connection.start(call)
            return
        call.connecting = None
        text = f"no connection to {self._url.netloc}: {type(error).__name__}: {error}"
        call.end(call.reader.failed(Outcome.CONNECT, text, self._clock.now()))

    async def _connection(self, family: socket.AddressFamily, address: tuple[object, ...]) -> Connection:
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            stamped = self._ssl is None and stamp_arrivals(sock)
            await self._loop.sock_connect(sock, address)
            _, connection = await self._loop.create_connection(
                lambda: Connection(self, self.wire, self._clock, sock if stamped else None),
                sock=sock,
                ssl=self._ssl,
                server_hostname=self._url.host if self._ssl else None,
            )
        except BaseException:
            sock.close()
            raise
        return connection


class _Url:
    """The parts of a base URL that a request needs."""

    def __init__(self, base_url: str) -> None:
        remedy = "Give the server's address, such as --base-url http://127.0.0.1:8000."
        try:
            parts = urlsplit(base_url)
            port = parts.port
        except ValueError as error:
            raise UsageError(f"the base URL {base_url!r} is not a URL: {error}", remedy=remedy) from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"the base URL {base_url!r} is not an http or https URL with a host", remedy=remedy)
        if parts.username or parts.password or parts.query or parts.fragment:
            raise UsageError(
                "the base URL has a user, a password, a query or a fragment",
                remedy=remedy + " An API key is given apart, never in the URL.",
            )
        self.tls = parts.scheme == "https"
        self.host = parts.hostname
        self.port = port or (443 if self.tls else 80)
        self.netloc = parts.netloc
        # Servers are commonly named with their "/v1"; the paths of the turns begin with it.
        self.prefix = parts.path.rstrip("/").removesuffix("/v1")


def _checked_key(api_key: str | None) -> str | None:
    if api_key is None:
        return None
    if not api_key or not api_key.isascii() or not api_key.isprintable() or api_key.strip() != api_key:
        raise UsageError(
            "the API key is empty, or has characters that no HTTP header can carry",
            remedy="Look for a line break or a space at its end, where it is set.",
        )
    return api_key
