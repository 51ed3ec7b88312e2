"""The reference server's protocol: HTTP/1.1 in, scripted bytes out, each at its deadline."""

from __future__ import annotations

import asyncio
import hashlib
import socket
import struct
import time
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import httptools
import orjson
from pydantic import ValidationError

from bench.load.alarm import Alarm, Entry
from tests.truth.ledger import Ledger, Truth
from tests.truth.replies import HTML, Ask, Step, Writer, drawn, response, token_counts
from tests.truth.script import Behaviour, Script

GENERATE: Final = {b"/v1/chat/completions": True, b"/v1/completions": False}
SO_TIMESTAMPNS: Final = 35
"""Linux, asm-generic/socket.h; Python's socket module does not name it."""

DEFAULT_OUTPUT_TOKENS: Final = 16


def prompt_words(body: dict[str, Any]) -> list[Any]:
    """The prompt in this server's own tokens: words of a text, or the given token ids."""
    prompt = body.get("prompt", body.get("messages"))
    if isinstance(prompt, list) and prompt and not isinstance(prompt[0], dict):
        return prompt
    return prompt_text(body).split()


def prompt_text(body: dict[str, Any]) -> str:
    """Everything that was said, as one text."""
    prompt = body.get("prompt", body.get("messages"))
    if isinstance(prompt, str):
        return prompt
    parts = []
    for message in prompt or ():
        content = message.get("content") if isinstance(message, dict) else message
        parts.append(content if isinstance(content, str) else orjson.dumps(content).decode())
    return "\n".join(parts)


@dataclass(slots=True)
class PrefixCache:
    """A prefix cache that never evicts: whole blocks, each known by all that stands before it."""

    block_size: int
    seen: set[bytes] = field(default_factory=set)

    def look_up(self, words: list[Any]) -> int:
        """Tokens found; the prompt's blocks are found from now on. The last token is never served from the cache."""
        digest = hashlib.sha256()
        found = 0
        hit = True
        for end in range(self.block_size, len(words) + 1, self.block_size):
            digest.update(orjson.dumps(words[end - self.block_size : end]))
            key = digest.digest()
            hit = hit and key in self.seen and end < len(words)
            found = end if hit else found
            self.seen.add(key)
        return found


class Server:
    """State shared by the connections: script, ledger, deadlines, who runs and who waits."""

    def __init__(self, script: Script, ledger: Ledger, alarm: Alarm) -> None:
        self.script = script
        self.ledger = ledger
        self.alarm = alarm
        self.numbers = 0
        self.waiting: deque[Reply] = deque()
        self.connections: set[Connection] = set()
        self.cache = PrefixCache(script.block_size) if script.prefix_caching else None

    def admit(self, reply: Reply) -> None:
        """Start the reply, or let it wait for its turn."""
        limit = self.script.max_running
        if limit is not None and self.ledger.running >= limit:
            self.waiting.append(reply)
            self.ledger.waiting = len(self.waiting)
            return
        self.ledger.running += 1
        reply.start()

    def left(self, reply: Reply) -> None:
        """A reply is over; whoever waited longest is next."""
        if reply.truth.started_s is None:
            self.waiting.remove(reply)
        else:
            self.ledger.running -= 1
            while self.waiting and self.ledger.running < (self.script.max_running or 0):
                self.ledger.running += 1
                self.waiting.popleft().start()
        self.ledger.waiting = len(self.waiting)


class Reply:
    """One scripted reply on its way."""

    def __init__(self, server: Server, connection: Connection, ask: Ask, behaviour: Behaviour, truth: Truth) -> None:
        self.server = server
        self.connection = connection
        self.ask = ask
        self.behaviour = behaviour
        self.truth = truth
        self._steps: list[Step] = []
        self._next = 0
        self._offset = 0.0
        self._entry: Entry | None = None

    def start(self) -> None:
        """Its turn has come: every time from now on counts from here, less what the request took to arrive."""
        now = time.monotonic()
        waited = self.truth.in_flight > (self.server.script.max_running or self.truth.in_flight)
        self.truth.started_s = now
        self._offset = now if waited else self.truth.received_s
        behaviour, law = self.behaviour, self.server.script.law
        if law is not None and not {"ttft_s", "gap_s"} & self.connection.own_times:
            tokens = self.ask.output_tokens if behaviour.output_tokens is None else behaviour.output_tokens
            behaviour = drawn(
                law,
                behaviour,
                seed=self.server.script.seed,
                number=self.truth.number,
                in_flight=self.server.ledger.running,
                chunks=len(token_counts(behaviour, tokens)),
            )
        self._steps = Writer(self.ask, behaviour).steps()
        self._go()

    def _go(self) -> None:
        """Write everything that is due, then set the deadline of what is not."""
        while self._next < len(self._steps):
            step = self._steps[self._next]
            due = self._offset + step.at_s
            if due > time.monotonic():
                self._entry = self.server.alarm.call_at(due, self._go)
                return
            self._next += 1
            self._write(step)

    def _write(self, step: Step) -> None:
        truth, ledger = self.truth, self.server.ledger
        if step.what in {"reset", "close"}:
            self.over("cut")
            self.connection.drop(reset=step.what == "reset")
            return
        if step.what == "end":
            truth.done_s = truth.ended_s
            self.over("complete")
            self.connection.replied(self.behaviour)
            return
        now = time.monotonic()
        self.connection.write(step.data)
        truth.ended_s = now
        if step.what == "headers":
            truth.headers_s = now
            truth.status = self.behaviour.status
            if truth.status == 200:
                ledger.prompt_tokens += truth.prompt_tokens
                ledger.cached_tokens += truth.cached_tokens
        elif step.what == "role":
            truth.role_s = now
        elif step.tokens:
            if truth.first_token_s is None:
                truth.first_token_s = now
            truth.last_token_s = now
            truth.chunk_s.append(now)
            truth.generated_tokens += step.tokens
            ledger.chunk(step.tokens)

    def over(self, how: str) -> None:
        """The reply is over: complete, cut as scripted, or the client is gone."""
        if self.truth.ended:
            return
        if self._entry is not None:
            self._entry.cancel()
        self._next = len(self._steps)
        self.truth.ended = how  # type: ignore[assignment]  one of the literals, by its callers
        if how != "complete":
            self.truth.ended_s = time.monotonic()
        if self.truth.status == 200 or how == "client":
            reason = {"complete": self.behaviour.finish_reason or "stop", "client": "abort"}.get(how, "error")
            self.server.ledger.finished[reason] += 1
        self.server.left(self)
        self.server.ledger.end(self.truth)
        self.connection.reply = None


class Connection(asyncio.Protocol):
    """One TCP connection; requests on it come one after the other."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.reply: Reply | None = None
        self.own_times: set[str] = set()
        self._transport: asyncio.Transport | None = None
        self._socket: socket.socket | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._served = 0
        self._received_s: float | None = None
        self._url = b""
        self._body: list[bytes] = []

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        wrapped = transport.get_extra_info("socket")
        wrapped.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.server.connections.add(self)

    def data_received(self, data: bytes) -> None:
        if self._received_s is None:
            self._received_s = time.monotonic()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.write(response(400, b'{"error": {"message": "not HTTP", "code": 400}}'))
            self.drop(reset=False)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.server.connections.discard(self)
        self._transport = None
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
        if self.server.script.not_an_api:
            self.write(response(200, HTML, "text/html; charset=utf-8"))
        elif path in GENERATE:
            self._generate(GENERATE[path], received_s, complete_s)
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
            raw = self._transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()
        else:
            self._transport.close()

    def replied(self, behaviour: Behaviour) -> None:
        """A reply is complete; close the connection if the script says so."""
        if behaviour.close_after_s is not None:
            self.server.alarm.call_at(time.monotonic() + behaviour.close_after_s, partial(self.drop, reset=False))

    def _answer(self, path: bytes) -> None:
        script, ledger = self.server.script, self.server.ledger
        if path == b"/health":
            self.write(response(200, b"", "text/plain"))
        elif path == b"/version":
            self.write(response(200, b'{"version": "0.26.0+truth"}'))
        elif path == b"/metrics":
            text = ledger.metrics(
                model=script.model, block_size=script.block_size, prefix_caching=script.prefix_caching
            )
            self.write(response(200, text, "text/plain; version=0.0.4; charset=utf-8"))
        elif path == b"/v1/models":
            card = {"id": script.model, "object": "model", "owned_by": "truth", "max_model_len": script.max_model_len}
            self.write(response(200, orjson.dumps({"object": "list", "data": [card]})))
        elif path == b"/truth":
            self.write(response(200, ledger.jsonl(), "application/jsonl"))
        else:
            self.write(response(404, b'{"detail": "Not Found"}'))

    def _refuse(self, status: int, message: str) -> None:
        kind = "NotFoundError" if status == 404 else "BadRequestError"
        self.write(response(status, orjson.dumps({"error": {"message": message, "type": kind, "code": status}})))

    def _generate(self, chat: bool, received_s: float, complete_s: float) -> None:  # noqa: FBT001  by position, once
        server, script = self.server, self.server.script
        number = server.numbers
        server.numbers += 1
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
        self.own_times = set(changes)
        ask = self._ask(body, behaviour, number, chat=chat)
        truth = Truth(
            number=number,
            tag=behaviour.tag,
            fault=behaviour.fault,
            received_s=received_s,
            complete_s=complete_s,
            prompt_tokens=ask.prompt_tokens,
            cached_tokens=ask.cached_tokens,
            in_flight=server.ledger.running + len(server.waiting) + 1,
            reused=self._served > 0,
        )
        self.reply = Reply(server, self, ask, behaviour, truth)
        server.admit(self.reply)

    def _ask(self, body: dict[str, Any], behaviour: Behaviour, number: int, *, chat: bool) -> Ask:
        cache = self.server.cache
        prompt_tokens, cached_tokens = behaviour.prompt_tokens, behaviour.cached_tokens
        if prompt_tokens is None or (cache is not None and cached_tokens is None):
            words = prompt_words(body)
            prompt_tokens = len(words) if prompt_tokens is None else prompt_tokens
            if cache is not None and cached_tokens is None:
                cached_tokens = cache.look_up(words)
        options = body.get("stream_options") or {}
        return Ask(
            number=number,
            chat=chat,
            stream=bool(body.get("stream")),
            wants_usage=bool(options.get("include_usage")),
            output_tokens=body.get("max_completion_tokens") or body.get("max_tokens") or DEFAULT_OUTPUT_TOKENS,
            prompt_tokens=prompt_tokens,
            cached_tokens=cached_tokens or 0,
            prompt=prompt_text(body) if behaviour.echo_prompt else "",
            model=self.server.script.model,
        )
