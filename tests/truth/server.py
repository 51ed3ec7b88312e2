"""Who is answered, when, with what: the scripted replies of the reference server, and the turns they take."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Literal

from tests.truth import prompt
from tests.truth.answers import Model
from tests.truth.ledger import Ledger, Truth
from tests.truth.replies import Ask, Step, Writer, drawn, token_counts

if TYPE_CHECKING:
    from bench.load.alarm import Alarm, Entry
    from tests.truth.connection import Connection
    from tests.truth.script import Behaviour, Script

DEFAULT_OUTPUT_TOKENS: Final = 16


class Server:
    """State shared by the connections: script, ledger, deadlines, who runs and who waits."""

    def __init__(self, script: Script, ledger: Ledger, alarm: Alarm) -> None:
        self.script = script
        self.ledger = ledger
        self.alarm = alarm
        self.connections: set[Connection] = set()
        self._numbers = 0
        self._waiting: deque[Reply] = deque()
        self._model = Model(script.answers) if script.answers is not None else None
        self._cache = prompt.PrefixCache(script.block_size) if script.prefix_caching else None

    def next_number(self) -> int:
        """The number of arrival of a request, from 0."""
        self._numbers += 1
        return self._numbers - 1

    @property
    def in_flight(self) -> int:
        """Requests that run or wait."""
        return self.ledger.running + len(self._waiting)

    def ask(self, body: dict[str, Any], behaviour: Behaviour, number: int, *, chat: bool) -> Ask:
        """What a request asks for. Counting the prompt takes time; a script that names the counts spares it."""
        prompt_tokens, cached_tokens = behaviour.prompt_tokens, behaviour.cached_tokens
        looks_up = self._cache is not None and cached_tokens is None
        if prompt_tokens is None or looks_up:
            tokens = prompt.words(body)
            prompt_tokens = len(tokens) if prompt_tokens is None else prompt_tokens
            if self._cache is not None and looks_up:
                cached_tokens = self._cache.look_up(tokens)
        output_tokens = body.get("max_completion_tokens") or body.get("max_tokens") or DEFAULT_OUTPUT_TOKENS
        answer = None if self._model is None else self._model.reply(body, output_tokens)
        wants_odds = body.get("logprobs") is not None and self.script.answers is not None and self.script.answers.odds
        return Ask(
            number=number,
            chat=chat,
            stream=bool(body.get("stream")),
            wants_usage=bool((body.get("stream_options") or {}).get("include_usage")),
            output_tokens=output_tokens,
            prompt_tokens=prompt_tokens,
            cached_tokens=cached_tokens or 0,
            prompt=prompt.text(body) if behaviour.echo_prompt else "",
            model=self.script.model,
            token_ids=() if answer is None else tuple(answer[0]),
            odds=() if answer is None or not wants_odds else tuple(answer[1]),
        )

    def admit(self, reply: Reply) -> None:
        """Start the reply, or let it wait for its turn."""
        limit = self.script.max_running
        if limit is not None and self.ledger.running >= limit:
            self._waiting.append(reply)
            self.ledger.waiting = len(self._waiting)
        else:
            self.ledger.running += 1
            reply.start(reply.truth.received_s)

    def left(self, reply: Reply) -> None:
        """A reply is over; whoever waited longest is next."""
        if reply.truth.started_s is None:
            self._waiting.remove(reply)
        else:
            self.ledger.running -= 1
            if self._waiting:
                self.ledger.running += 1
                self._waiting.popleft().start(time.monotonic())
        self.ledger.waiting = len(self._waiting)


class Reply:
    """One scripted reply on its way.

    Args:
        server: whose.
        connection: it goes out on.
        ask: what was asked.
        behaviour: how to answer.
        truth: what is done goes in here.
        own_times: the script names this request's times, so the law does not.
    """

    def __init__(
        self, server: Server, connection: Connection, ask: Ask, behaviour: Behaviour, truth: Truth, *, own_times: bool
    ) -> None:
        self.truth = truth
        self.behaviour = behaviour
        self._server = server
        self._connection = connection
        self._ask = ask
        self._own_times = own_times
        self._steps: list[Step] = []
        self._next = 0
        self._began_s = 0.0
        self._entry: Entry | None = None

    def start(self, began_s: float) -> None:
        """Its turn has come; the script's times count from `began_s`."""
        self.truth.started_s = time.monotonic()
        self._began_s = began_s
        law, behaviour = self._server.script.law, self.behaviour
        if law is not None and not self._own_times:
            tokens = self._ask.output_tokens if behaviour.output_tokens is None else behaviour.output_tokens
            behaviour = drawn(
                law,
                behaviour,
                seed=self._server.script.seed,
                number=self.truth.number,
                in_flight=self._server.ledger.running,
                chunks=len(token_counts(behaviour, tokens)),
            )
        self._steps = Writer(self._ask, behaviour).steps()
        self._go()

    def over(self, how: Literal["complete", "cut", "client", "shutdown"]) -> None:
        """The reply is over: complete, cut as scripted, or one of the two sides is gone."""
        if self.truth.ended:
            return
        if self._entry is not None:
            self._entry.cancel()
        self._next = len(self._steps)
        self.truth.ended = how
        if how != "complete":
            self.truth.ended_s = time.monotonic()
        reason = {"complete": self.behaviour.finish_reason or "stop", "cut": "error"}.get(how, "abort")
        if self.truth.status in (200, None):
            self._server.ledger.finished[reason] += 1
        self._server.left(self)
        self._server.ledger.end(self.truth)
        self._connection.reply = None

    def _go(self) -> None:
        """Write everything that is due, then set the deadline of what is not."""
        while self._next < len(self._steps):
            step = self._steps[self._next]
            due = self._began_s + step.at_s
            if due > time.monotonic():
                self._entry = self._server.alarm.call_at(due, self._go)
                return
            self._next += 1
            self._do(step)

    def _do(self, step: Step) -> None:
        match step.what:
            case "reset" | "close":
                self.over("cut")
                self._connection.drop(reset=step.what == "reset")
            case "end":
                self.truth.done_s = self.truth.ended_s
                self.over("complete")
                self._connection.replied(self.behaviour)
            case _:
                self._write(step)

    def _write(self, step: Step) -> None:
        truth, ledger = self.truth, self._server.ledger
        now = time.monotonic()
        self._connection.write(step.data)
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
            truth.first_token_s = truth.first_token_s or now
            truth.last_token_s = now
            truth.chunk_s.append(now)
            truth.generated_tokens += step.tokens
            ledger.chunk(step.tokens)
