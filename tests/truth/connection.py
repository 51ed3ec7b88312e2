"""The reference server's HTTP/1.1."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import httptools
import orjson
from pydantic import ValidationError

from bench.load.wire import kernel_stamp, stamp_arrivals
from tests.truth.ledger import Truth
from tests.truth.replies import HTML, response
from tests.truth.server import Reply, Server

if TYPE_CHECKING:
    from tests.truth.script import Behaviour

GENERATE: Final = {b"/v1/chat/completions": True, b"/v1/completions": False}
"""Path to whether it is chat."""

BUFFER: Final = memoryview(bytearray(256 * 1024))
"""Every connection reads into it; the parser copies what it hands on."""


class Connection(asyncio.BufferedProtocol):
    """One TCP connection; requests on it come one after the other."""

    def __init__(self, server: Server) -> None:
        self.reply: Reply | None = None
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._socket: socket.socket | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._served = 0
        self._received_s: float | None = None
        self._url = b""
        self._body: list[bytes] = []

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        wrapped = transport.get_extra_info("socket")
        wrapped.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # asyncio's wrapper cannot read ancillary data; another descriptor of the same socket can.
        self._socket = socket.socket(fileno=os.dup(wrapped.fileno()))
        stamp_arrivals(self._socket)
        self._server.connections.add(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        if self._received_s is None and self._socket is not None:
            now, wall = time.monotonic(), time.time()
            try:
                stamp = kernel_stamp(self._socket)
            except OSError:
                stamp = None  # the client is gone; the read that follows ends the connection
            self._received_s = now if stamp is None else now - max(0.0, wall - stamp)
        return BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        try:
            self._parser.feed_data(BUFFER[:nbytes])
        except httptools.HttpParserError:
            self.write(response(400, b'{"error": {"message": "not HTTP", "code": 400}}'))
            self.drop(reset=False)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._server.connections.discard(self)
        self._transport = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self.reply is not None:
            self.reply.over("client")

    # httptools' side

    def on_message_begin(self) -> None:
        self._url = b""
        self._body = []

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        complete_s = time.monotonic()
        received_s = complete_s if self._received_s is None else self._received_s
        self._received_s = None
        path = self._url.split(b"?", 1)[0]
        if self._server.script.not_an_api:
            self.write(response(200, HTML, "text/html; charset=utf-8"))
        elif path in GENERATE:
            self._generate(received_s, complete_s, chat=GENERATE[path])
        else:
            self._answer(path)
        self._served += 1

    # replies

    def write(self, data: bytes) -> None:
        """Hand bytes to the kernel."""
        if self._transport is not None:
            self._transport.write(data)

    def drop(self, *, reset: bool) -> None:
        """End the connection: in order, or by a reset that the client sees as an error."""
        if self._transport is None:
            return
        if reset:
            wrapped = self._transport.get_extra_info("socket")
            wrapped.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if self._socket is not None:
                self._socket.close()  # or the socket would live on through this descriptor
                self._socket = None
            self._transport.abort()
        else:
            self._transport.close()

    def replied(self, behaviour: Behaviour) -> None:
        """A reply is complete; close the connection if the script says so."""
        if behaviour.close_after_s is not None:
            self._server.alarm.call_at(time.monotonic() + behaviour.close_after_s, partial(self.drop, reset=False))

    def _answer(self, path: bytes) -> None:
        script, ledger = self._server.script, self._server.ledger
        match path:
            case b"/health":
                self.write(response(200, b"", "text/plain"))
            case b"/version":
                self.write(response(200, b'{"version": "0.26.0+truth"}'))
            case b"/metrics":
                text = ledger.metrics(
                    model=script.model,
                    block_size=script.block_size,
                    prefix_caching=script.prefix_caching,
                    mamba=script.mamba_cache_mode,
                )
                self.write(response(200, text, "text/plain; version=0.0.4; charset=utf-8"))
            case b"/v1/models":
                card: dict[str, Any] = {"id": script.model, "object": "model", "max_model_len": script.max_model_len}
                self.write(response(200, orjson.dumps({"object": "list", "data": [card]})))
            case b"/truth":
                self.write(response(200, ledger.jsonl(), "application/jsonl"))
            case _:
                self.write(response(404, b'{"detail": "Not Found"}'))

    def _refuse(self, status: int, message: str) -> None:
        kind = "NotFoundError" if status == 404 else "BadRequestError"
        self.write(response(status, orjson.dumps({"error": {"message": message, "type": kind, "code": status}})))

    def _generate(self, received_s: float, complete_s: float, *, chat: bool) -> None:
        server, script = self._server, self._server.script
        number = server.next_number()
        try:
            body = orjson.loads(b"".join(self._body))
            changes = {**script.changes(number), **body.get("truth", {})}
            behaviour = script.default.merged(changes)
        except (ValueError, AttributeError, TypeError, ValidationError) as error:
            self._refuse(400, f"{type(error).__name__}: {error}".replace("\n", " "))
            return
        if body.get("model", script.model) != script.model:
            self._refuse(404, f"The model `{body['model']}` does not exist.")
            return
        if behaviour.fault == "dead_keepalive" and not self._served:
            behaviour = behaviour.merged({"fault": "none"})
        ask = server.ask(body, behaviour, number, chat=chat)
        truth = Truth(
            number=number,
            tag=behaviour.tag,
            fault=behaviour.fault,
            received_s=received_s,
            complete_s=complete_s,
            prompt_tokens=ask.prompt_tokens,
            cached_tokens=ask.cached_tokens,
            in_flight=server.in_flight + 1,
            reused=self._served > 0,
        )
        own_times = not {"ttft_s", "gap_s"}.isdisjoint(changes)
        self.reply = Reply(server, self, ask, behaviour, truth, own_times=own_times)
        server.admit(self.reply)
