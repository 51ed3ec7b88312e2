"""The bytes of a scripted reply and when each leaves. Pure: the same request and behaviour give the same steps."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import NormalDist
from typing import Any, Literal, TypeAlias

import orjson

from tests.truth.script import Behaviour, Law

What: TypeAlias = Literal["headers", "role", "chunk", "tail", "reset", "close", "end"]

WORDS = ("né", "日本", "tok", "żółw", "ok", "été")
"""Text of the tokens; most have a multi-byte character, so that a piece cut anywhere likely cuts one."""

PIECE_GAP_S = 0.0005
"""Between the pieces of one event, so that a client sees them apart."""

HTML = b"<!DOCTYPE html>\n<html><head><title>Welcome</title></head><body>This is not an API.</body></html>\n"


@dataclass(frozen=True, slots=True)
class Ask:
    """What a request asks for.

    Attributes:
        number: of arrival, from 0.
        chat: chat completions, not completions.
        stream: server-sent events, not one JSON object.
        wants_usage: stream_options.include_usage.
        output_tokens: reply length asked for.
        prompt_tokens: length of the prompt as this server counts.
        cached_tokens: of these, found in the simulated prefix cache.
        prompt: its text, for echoing.
        model: as asked for.
        token_ids: the reply; empty where none are told.
        odds: log-probabilities at each of its tokens; likewise.
    """

    number: int
    chat: bool
    stream: bool
    wants_usage: bool
    output_tokens: int
    prompt_tokens: int
    cached_tokens: int
    prompt: str
    model: str
    token_ids: tuple[int, ...] = ()
    odds: tuple[dict[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """One write.

    Attributes:
        at_s: seconds after the request's first byte was received.
        data: the bytes, HTTP framing included.
        tokens: reply tokens in them.
        what: "headers", "role", "chunk" (content), "tail" (usage, [DONE], last byte), "reset" and "close" (end the
            connection), "end" (the reply is complete).
    """

    at_s: float
    data: bytes
    tokens: int
    what: What


def drawn(law: Law, behaviour: Behaviour, *, seed: int, number: int, in_flight: int, chunks: int) -> Behaviour:
    """The behaviour with its times drawn from the law."""
    sigma = math.log(law.e2e_p95_s / law.e2e_p50_s) / NormalDist().inv_cdf(0.95)
    noise = random.Random(f"{seed}/{number}").gauss(0.0, sigma)  # noqa: S311  a script, not a secret
    e2e = law.e2e_p50_s * math.exp(noise) * (1 + law.slowdown * max(0, in_flight - law.free))
    ttft = e2e if chunks < 2 else e2e * law.ttft_share
    gap = 0.0 if chunks < 2 else (e2e - ttft) / (chunks - 1)
    return replace_times(behaviour, ttft, gap)


def replace_times(behaviour: Behaviour, ttft_s: float, gap_s: float) -> Behaviour:
    """The behaviour with other times, not validated again."""
    return behaviour.model_copy(update={"ttft_s": ttft_s, "gap_s": gap_s})


def token_counts(behaviour: Behaviour, tokens: int) -> list[int]:
    """Tokens of each chunk; they add up to `tokens`."""
    counts: list[int] = []
    left = tokens
    for size in _in_turn(behaviour.chunk_tokens):
        if left <= 0:
            break
        counts.append(min(size, left))
        left -= counts[-1]
    return counts


def _in_turn(values: list[Any]) -> Iterator[Any]:
    yield from values
    while True:
        yield values[-1]


def _dumps(value: object) -> bytes:
    return orjson.dumps(value)


class Writer:
    """Turns one ask into steps."""

    def __init__(self, ask: Ask, behaviour: Behaviour) -> None:
        self.ask = ask
        self.behaviour = behaviour
        self.tokens = ask.output_tokens if behaviour.output_tokens is None else behaviour.output_tokens
        self._head = {
            "id": f"{'chatcmpl' if ask.chat else 'cmpl'}-{ask.number}",
            "object": "chat.completion.chunk" if ask.chat else "text_completion",
            "created": 1_700_000_000,
            "model": ask.model,
        }

    def steps(self) -> list[Step]:
        """All writes of the reply, in order of time."""
        behaviour = self.behaviour
        if behaviour.status != 200:
            return self._error()
        if behaviour.fault == "html":
            return self._whole(HTML, "text/html; charset=utf-8", behaviour.headers_s)
        if behaviour.fault == "not_http":
            return [
                Step(behaviour.headers_s, b"SSH-2.0-OpenSSH_9.2\r\n", 0, "headers"),
                Step(behaviour.headers_s, b"", 0, "close"),
            ]
        if behaviour.fault in {"no_response", "dead_keepalive"}:
            return [Step(behaviour.headers_s, b"", 0, "close")]
        if not self.ask.stream:
            return self._object()
        return self._framed(self._events())

    def _error(self) -> list[Step]:
        status = self.behaviour.status
        body = _dumps({"error": {"message": f"scripted status {status}", "type": "scripted", "code": status}})
        retry = self.behaviour.retry_after_s
        extra = b"" if retry is None else b"retry-after: %d\r\n" % retry
        return self._whole(body, "application/json", self.behaviour.headers_s, status=status, extra=extra)

    def _whole(self, body: bytes, kind: str, at_s: float, *, status: int = 200, extra: bytes = b"") -> list[Step]:
        return [Step(at_s, response(status, body, kind, extra=extra), 0, "headers"), Step(at_s, b"", 0, "end")]

    def _object(self) -> list[Step]:
        text = "".join(self._text(index) for index in range(self.tokens))
        choice: dict[str, Any] = {"index": 0, "finish_reason": self.behaviour.finish_reason}
        if self.ask.chat:
            choice["message"] = {"role": "assistant", self.behaviour.field: text}
        else:
            choice["text"] = text
        head = {**self._head, "object": "chat.completion" if self.ask.chat else "text_completion"}
        body = _dumps({**head, "choices": [choice], "usage": self._usage()})
        at_s = self._chunk_times()[-1] if self.tokens else self.behaviour.ttft_s
        data = response(200, body, "application/json")
        return [Step(at_s, data, self.tokens, "chunk"), Step(at_s, b"", 0, "end")]

    def _text(self, index: int) -> str:
        return f" {WORDS[index % len(WORDS)]}"

    def _usage(self) -> dict[str, Any]:
        behaviour = self.behaviour
        completion = self.tokens - 1 if behaviour.usage == "wrong" else self.tokens
        return {
            "prompt_tokens": self.ask.prompt_tokens,
            "completion_tokens": completion,
            "total_tokens": self.ask.prompt_tokens + completion,
            "prompt_tokens_details": {"cached_tokens": self.ask.cached_tokens},
        }

    def _chunk_times(self) -> list[float]:
        behaviour = self.behaviour
        counts = token_counts(behaviour, self.tokens)
        gaps = behaviour.gap_s if isinstance(behaviour.gap_s, list) else [behaviour.gap_s]
        times = []
        at_s = behaviour.ttft_s
        for gap, _ in zip(_in_turn(gaps), counts, strict=False):
            times.append(at_s)
            at_s += gap
        return times

    def _delta(self, delta: dict[str, Any], finish_reason: str | None, tokens: slice = slice(0)) -> bytes:
        if self.ask.chat:
            choice: dict[str, Any] = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        else:
            choice = {"index": 0, "text": delta.get("content", ""), "logprobs": None, "finish_reason": finish_reason}
            if self.ask.token_ids[tokens]:
                choice["token_ids"] = self.ask.token_ids[tokens]
            if self.ask.odds[tokens]:
                rows = [{f"token_id:{token}": odds for token, odds in row.items()} for row in self.ask.odds[tokens]]
                choice["logprobs"] = {"top_logprobs": rows}
        return _dumps({**self._head, "choices": [choice]})

    def _content(self, text: str) -> dict[str, Any]:
        field = self.behaviour.field
        if field == "tool_calls":
            return {"tool_calls": [{"index": 0, "function": {"arguments": text}}]}
        return {field: text}

    def _events(self) -> list[Step]:
        """The events, not framed: `data` of each step is what stands after "data: "."""
        behaviour = self.behaviour
        counts = token_counts(behaviour, self.tokens)
        times = self._chunk_times()
        events: list[Step] = []
        if behaviour.fault in {"no_chunk", "nothing"}:
            data = b"[DONE]" if behaviour.fault == "no_chunk" else b""
            return [Step(behaviour.ttft_s, data, 0, "tail")]
        if behaviour.role_s is not None and self.ask.chat:
            first = min(behaviour.role_s, behaviour.ttft_s)
            events.append(Step(first, self._delta({"role": "assistant", "content": ""}, None), 0, "role"))
        index = 0
        for number, (count, at_s) in enumerate(zip(counts, times, strict=True)):
            if behaviour.fault != "none" and number >= behaviour.fault_after:
                return [*events, *self._fault(at_s)]
            text = "".join(self._text(index + offset) for offset in range(count))
            place = slice(index, index + count)
            index += count
            finish = behaviour.finish_reason if number == len(counts) - 1 else None
            delta = self._content(text)
            if behaviour.echo_prompt and number == 0:
                delta["echo"] = self.ask.prompt
            events.append(Step(at_s, self._delta(delta, finish, place), count, "chunk"))
        last = times[-1] if times else behaviour.ttft_s
        if behaviour.fault != "none":
            return [*events, *self._fault(last)]
        if behaviour.usage != "absent" and self.ask.wants_usage:
            events.append(Step(last, _dumps({**self._head, "choices": [], "usage": self._usage()}), 0, "tail"))
        if behaviour.done:
            events.append(Step(last, b"[DONE]", 0, "tail"))
        return events

    def _fault(self, at_s: float) -> list[Step]:
        match self.behaviour.fault:
            case "cut":
                return [Step(at_s, b"", 0, "reset")]
            case "close":
                return [Step(at_s, b"", 0, "close")]
            case "error_event":
                error = _dumps(
                    {"error": {"message": "scripted engine error", "type": "InternalServerError", "code": 500}}
                )
                return [Step(at_s, error, 0, "tail"), Step(at_s, b"[DONE]", 0, "tail")]
            case "not_json":
                return [Step(at_s, b"{this is not JSON", 0, "tail"), Step(at_s, b"[DONE]", 0, "tail")]
            case _:  # "hang"
                return []

    def _framed(self, events: list[Step]) -> list[Step]:
        behaviour = self.behaviour
        newline = behaviour.newline.encode()
        comment = b": keep-alive" + newline if behaviour.comments else b""
        framed = [
            replace(event, data=b"".join((comment, b"data: ", event.data, newline, newline))) if event.data else event
            for event in events
        ]
        body = b"".join(step.data for step in framed)
        ended = not events or events[-1].what not in {"reset", "close"}
        hangs = behaviour.fault == "hang"
        if behaviour.content_length:
            promised = len(body) if ended and not hangs else len(body) + 1
            head = _head(200, "text/event-stream; charset=utf-8", b"content-length: %d\r\n" % promised)
        else:
            head = _head(200, "text/event-stream; charset=utf-8", b"transfer-encoding: chunked\r\n")
            framed = [replace(step, data=_chunk(step.data)) if step.data else step for step in framed]
        steps = [Step(behaviour.headers_s, head, 0, "headers")]
        for step in framed:
            at_s = max(step.at_s, behaviour.headers_s)
            steps.extend(_pieces(replace(step, at_s=at_s), behaviour.split_writes))
        last = steps[-1].at_s
        if ended and not hangs:
            if not behaviour.content_length:
                steps.append(Step(last, b"0\r\n\r\n", 0, "tail"))
            steps.append(Step(last, b"", 0, "end"))
        return _joined(steps) if behaviour.one_write else steps


def _joined(steps: list[Step]) -> list[Step]:
    """All content at the time of its last chunk, in one write."""
    last = max(step.at_s for step in steps)
    content = [step for step in steps if step.what in {"role", "chunk", "tail"}]
    rest = [step for step in steps if step.what not in {"role", "chunk", "tail"}]
    data = b"".join(step.data for step in content)
    joined = Step(last, data, sum(step.tokens for step in content), "chunk")
    return [step for step in rest if step.what == "headers"] + [joined] + [s for s in rest if s.what != "headers"]


def _pieces(step: Step, pieces: int) -> list[Step]:
    """One step as several, cut inside a multi-byte character where there is one. Only the first counts the tokens."""
    if pieces < 2 or len(step.data) < 2 * pieces:
        return [step]
    cuts = [index for index, byte in enumerate(step.data) if 0x80 <= byte < 0xC0]
    if len(cuts) < pieces - 1:
        cuts = list(range(1, len(step.data)))
    chosen = [cuts[len(cuts) * part // pieces] for part in range(1, pieces)]
    bounds = [0, *chosen, len(step.data)]
    return [
        replace(
            step, at_s=step.at_s + number * PIECE_GAP_S, data=step.data[start:end], tokens=0 if number else step.tokens
        )
        for number, (start, end) in enumerate(pairwise(bounds))
        if end > start
    ]


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}


def _head(status: int, kind: str, extra: bytes) -> bytes:
    line = f"HTTP/1.1 {status} {REASONS.get(status, 'Scripted')}\r\nserver: truth\r\ncontent-type: {kind}\r\n"
    return line.encode() + extra + b"\r\n"


def response(status: int, body: bytes, kind: str = "application/json", *, extra: bytes = b"") -> bytes:
    """A whole response with a length."""
    return _head(status, kind, b"content-length: %d\r\n" % len(body) + extra) + body
