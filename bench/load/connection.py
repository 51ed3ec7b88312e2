"""One HTTP/1.1 connection: requests one after the other, the bytes of each reply to its reader."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol, cast

import httptools

from bench.load.reply import Exchange, ReplyReader
from bench.load.wire import Wire, kernel_stamp
from bench.records import Outcome

if TYPE_CHECKING:
    from bench.load.clock import RunClock


CLOSED_AT_ONCE: Final = "the server closed the connection before it was used"


class Call:
    """One request on its way, from `Client.send` to its `Exchange`.

    Attributes:
        request: the bytes to send.
        reader: reads the reply.
        connection: that carries it; None while one is being made.
        retried: it was sent a second time, because the server had closed a kept connection.
    """

    __slots__ = ("_on_end", "connecting", "connection", "reader", "request", "retried", "timer")

    def __init__(self, request: bytes, reader: ReplyReader, on_end: Callable[[Exchange], None]) -> None:
        self.request = request
        self.reader = reader
        self.connection: Connection | None = None
        self.connecting: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.retried = False
        self._on_end: Callable[[Exchange], None] | None = on_end

    @property
    def ended(self) -> bool:
        """Whether it has its exchange."""
        return self._on_end is None

    def end(self, exchange: Exchange) -> None:
        """Hand over what came of it. Only the first end counts."""
        # Whoever waits for the end commonly refers to the call, and the call refers to the body: with this reference
        # gone nothing is left for the garbage collector, which is not to run while latencies are measured.
        on_end, self._on_end = self._on_end, None
        if on_end is None:
            return
        if self.timer is not None:
            self.timer.cancel()
        if self.connecting is not None:
            self.connecting.cancel()
        on_end(exchange)

    def abandon(self, outcome: Outcome, error: str, at: float) -> None:
        """Give it up: close its connection, end it with `outcome` at once."""
        if not self.ended:
            connection, self.connection = self.connection, None
            if connection is not None:
                connection.close()
            self.end(self.reader.failed(outcome, error, at))


class Pool(Protocol):
    """What a connection tells its client."""

    def made(self, connection: Connection) -> None:
        """It is open."""
        ...

    def idle(self, connection: Connection) -> None:
        """It can carry another request."""
        ...

    def gone(self, connection: Connection) -> None:
        """It cannot."""
        ...

    def again(self, call: Call) -> None:
        """A kept connection turned out to be closed by the server before one byte came: send on a fresh one."""
        ...


class Connection(asyncio.BufferedProtocol):
    """One TCP (or TLS) connection.

    Args:
        sock: its socket, already told to stamp arrivals; None where the kernel's stamps cannot be had.
    """

    __slots__ = (
        "_any_byte",
        "_at",
        "_call",
        "_clock",
        "_content_type",
        "_failure",
        "_has_length",
        "_kernel_s",
        "_parser",
        "_pool",
        "_retry_after",
        "_served",
        "_sock",
        "_transport",
        "_wire",
    )

    def __init__(self, pool: Pool, wire: Wire, clock: RunClock, sock: socket.socket | None) -> None:
        self._pool = pool
        self._wire = wire
        self._clock = clock
        self._sock = sock
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._call: Call | None = None
        self._served = 0
        self._any_byte = False
        self._kernel_s: float | None = None
        self._failure: OSError | None = None
        self._at = 0.0
        self._content_type = ""
        self._retry_after = ""
        self._has_length = False

    # the client's side

    def start(self, call: Call) -> None:
        """Send a request; the connection must be idle."""
        transport = self._transport
        if transport is None:  # the server closed it as soon as it was made
            call.end(call.reader.failed(Outcome.CUT, CLOSED_AT_ONCE, self._clock.now()))
            return
        self._call = call
        call.connection = self
        self._any_byte = False
        self._content_type = self._retry_after = ""
        self._has_length = False
        if call.reader.sent_s is None:
            call.reader.sent_s = self._clock.now()
        transport.write(call.request)

    def close(self) -> None:
        """Drop the connection at once; whatever call it carries gets no more bytes."""
        self._call = None
        self._pool.gone(self)
        if self._transport is not None:
            self._transport.abort()

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self._transport = cast("asyncio.Transport", transport)
        self._pool.made(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Bytes are there and are read next: the moment to ask the kernel since when."""
        del sizehint
        self._kernel_s = None
        if self._sock is not None and self._wire.certified():
            try:
                self._kernel_s = kernel_stamp(self._sock)
            except OSError as error:
                self._failure = error
        return self._wire.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """They were read."""
        self._wire.received(self, nbytes, self._kernel_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended, by whomever."""
        self._wire.flush()  # what was read before the end counts
        self._transport = None
        self._pool.gone(self)
        call, self._call = self._call, None
        if call is None:
            return
        call.connection = None
        at = self._clock.now()
        exc = exc or self._failure
        if not self._any_byte and self._served and not call.retried:
            self._pool.again(call)
        elif exc is None and call.reader.has_head and not self._has_length:
            call.end(call.reader.complete(at))  # a body without a length ends with its connection
        else:
            where = "in the middle of the reply" if self._any_byte else "before a response"
            how = "the server closed the connection" if exc is None else f"{type(exc).__name__}: {exc}:"
            call.end(call.reader.failed(Outcome.CUT, f"{how} {where}", at))

    # the wire's side

    def take(self, data: bytes, monotonic: float) -> None:
        """Parse what was read."""
        call = self._call
        if call is None:
            self.close()  # nobody asked: a reply nobody waits for, or a server's parting words
            return
        self._any_byte = True
        self._at = self._clock.since_epoch(monotonic)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError:
            raise  # a fault of ours, not of the server
        except httptools.HttpParserError as error:
            call.abandon(Outcome.BAD_REPLY, f"not HTTP/1.1 ({error}): {data[:60]!r}", self._at)

    # httptools' side

    def on_header(self, name: bytes, value: bytes) -> None:
        """One response header."""
        match name.lower():
            case b"content-type":
                self._content_type = value.decode("latin-1")
            case b"content-length" | b"transfer-encoding":
                self._has_length = True
            case b"retry-after":
                self._retry_after = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """The body, if any, is next. Interim responses (1xx) are not the response."""
        status = self._parser.get_status_code()
        if self._call is not None and status >= 200:
            self._call.reader.head(status, self._content_type, self._at, retry_after=self._retry_after)

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        if self._call is not None:
            self._call.reader.body(body, self._at)

    def on_message_complete(self) -> None:
        """The body's last byte, by its own framing."""
        call = self._call
        if call is None or self._parser.get_status_code() < 200:
            return
        self._call = None
        self._served += 1
        call.connection = None
        if self._parser.should_keep_alive():
            self._pool.idle(self)
        else:
            self.close()
        call.end(call.reader.complete(self._at))
