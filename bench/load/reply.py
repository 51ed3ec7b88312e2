"""From the pieces of one reply to what it was: the state machine behind `Outcome`. Pure; stamps come with the bytes.

The first token is the first non-empty content, reasoning or tool delta, or the first text (or token ids) of a
completion: never the role-only chunk. Tokens come from usage. A reply counts only when it is whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import orjson

from bench.load.sse import SseParser
from bench.records import Outcome

ERROR_CHARACTERS: Final = 300
KEPT_BODY_BYTES: Final = 4096
"""Of a body that is no event stream: enough for an error's message."""

MOST_TOKENS: Final = 2**53
"""A count above this is no count; below it every reader of JSON agrees on its value."""

TEXT_FIELDS: Final = ("content", "reasoning", "reasoning_content")
DONE: Final = b"[DONE]"
EVENT_STREAM: Final = "text/event-stream"

OnChoice: TypeAlias = Callable[[dict[str, Any]], None]
"""Takes each choice of each chunk. A TypeError, KeyError or AttributeError from it says that its shape is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """What came of sending one request; the measured fields of `bench.records.RequestRecord`, by the same names."""

    sent_s: float | None
    headers_s: float | None
    first_token_s: float | None
    last_token_s: float | None
    done_s: float
    chunk_s: tuple[float, ...]
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    finish_reason: str | None
    status: int | None
    outcome: Outcome
    error: str


class ReplyReader:
    """Reads one reply. Call `head` once, `body` for each piece, then `complete`; or `failed` at any time, instead.

    Args:
        prompt_tokens: length of the prompt by our own count.
        output_tokens: length of the reply asked for.
        secret: never to stand in an error text, even where the server repeats it.
        on_choice: for whoever wants more of the reply than how it was delivered.
    """

    __slots__ = (
        "_body",
        "_broken",
        "_cached_tokens",
        "_chunk_s",
        "_completion_tokens",
        "_content_type",
        "_done",
        "_engine_error",
        "_finish_reason",
        "_headers_s",
        "_kept",
        "_on_choice",
        "_output_tokens",
        "_prompt_tokens",
        "_prompt_tokens_expected",
        "_retry_after",
        "_secret",
        "_sse",
        "_status",
        "sent_s",
    )

    def __init__(
        self, *, prompt_tokens: int, output_tokens: int, secret: str | None = None, on_choice: OnChoice | None = None
    ) -> None:
        self._secret = secret
        self._on_choice = on_choice
        self.sent_s: float | None = None
        self._prompt_tokens_expected = prompt_tokens
        self._output_tokens = output_tokens
        self._sse: SseParser | None = None
        self._body: list[bytes] = []
        self._kept = 0
        self._status: int | None = None
        self._content_type = ""
        self._retry_after = ""
        self._headers_s: float | None = None
        self._chunk_s: list[float] = []
        self._prompt_tokens: int | None = None
        self._cached_tokens: int | None = None
        self._completion_tokens: int | None = None
        self._finish_reason: str | None = None
        self._done = False
        self._engine_error: str | None = None
        self._broken: str | None = None

    def head(self, status: int, content_type: str, at: float, *, retry_after: str = "") -> None:
        """The response headers are complete."""
        self._status = status
        self._content_type = content_type
        self._retry_after = retry_after
        self._headers_s = at
        # A server that names no type at all may still stream events; one that names another type does not.
        if status == 200 and content_type.partition(";")[0].strip().lower() in ("", EVENT_STREAM):
            self._sse = SseParser()

    def body(self, piece: bytes, at: float) -> None:
        """A piece of the body arrived."""
        if self._sse is None:
            if self._kept < KEPT_BODY_BYTES:
                self._body.append(piece[: KEPT_BODY_BYTES - self._kept])
                self._kept += len(self._body[-1])
            return
        for event in self._sse.feed(piece):
            self._event(event, at)

    @property
    def has_head(self) -> bool:
        """Whether the response headers are complete."""
        return self._status is not None

    @property
    def first_token_s(self) -> float | None:
        """When the first token came, if it has."""
        return self._chunk_s[0] if self._chunk_s else None

    def complete(self, at: float) -> Exchange:
        """The body ended as HTTP says it should."""
        outcome, error = self._judge()
        return self._exchange(outcome, error, at)

    def failed(self, outcome: Outcome, error: str, at: float) -> Exchange:
        """The reply will not be complete."""
        return self._exchange(outcome, error, at)

    def _event(self, data: bytes, at: float) -> None:
        if data == DONE:
            self._done = True
            return
        try:
            event = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            self._broken = self._broken or f"an event is not JSON ({error}): {data[:80]!r}"
            return
        if not isinstance(event, dict):
            self._broken = self._broken or f"an event is not a JSON object: {data[:80]!r}"
            return
        if event.get("error") is not None or event.get("object") == "error":
            self._engine_error = self._engine_error or message_of(event)
            return
        try:
            usage = event.get("usage")
            if usage:
                self._usage(usage)
            for choice in event.get("choices") or ():
                self._choice(choice, at)
        except (AttributeError, TypeError, KeyError) as error:
            self._broken = self._broken or f"an event has another shape than expected ({error}): {data[:80]!r}"

    def _choice(self, choice: dict[str, Any], at: float) -> None:
        if _has_token(choice):
            self._chunk_s.append(at)
        reason = choice.get("finish_reason")
        if reason:
            self._finish_reason = str(reason)
        if self._on_choice is not None:
            self._on_choice(choice)

    def _usage(self, usage: dict[str, Any]) -> None:
        details = usage.get("prompt_tokens_details") or {}
        prompt, completion, cached = (
            usage.get("prompt_tokens"),
            usage.get("completion_tokens"),
            details.get("cached_tokens"),
        )
        for count in (prompt, completion, cached):
            if count is not None and (type(count) is not int or not 0 <= count <= MOST_TOKENS):
                raise TypeError(f"usage has {count!r} where a number of tokens belongs")
        self._prompt_tokens, self._completion_tokens, self._cached_tokens = prompt, completion, cached

    def _judge(self) -> tuple[Outcome, str]:
        """What the reply was; the first fault in this order names it."""
        return self._protocol_fault() or self._gap() or self._miscount() or (Outcome.OK, "")

    def _protocol_fault(self) -> tuple[Outcome, str] | None:
        if self._status != 200:
            return Outcome.HTTP_ERROR, self._http_error()
        if self._sse is None:
            return Outcome.BAD_REPLY, f"the reply is {self._content_type!r}, not {EVENT_STREAM}: {self._excerpt()}"
        if self._engine_error is not None:
            return Outcome.ENGINE_ERROR, self._engine_error
        if self._broken is not None:
            return Outcome.BAD_REPLY, self._broken
        return None

    def _gap(self) -> tuple[Outcome, str] | None:
        if not self._chunk_s:
            return Outcome.EMPTY, "status 200, and not one chunk with content"
        if not self._done:
            return Outcome.NO_DONE, "the body ended without [DONE]"
        if self._finish_reason is None:
            return Outcome.NO_FINISH, "[DONE] came, but no finish reason"
        if self._prompt_tokens is None or self._completion_tokens is None:
            return Outcome.NO_USAGE, "no usage: the tokens of the reply cannot be known"
        return None

    def _miscount(self) -> tuple[Outcome, str] | None:
        if self._prompt_tokens != self._prompt_tokens_expected:
            counts = f"{self._prompt_tokens} prompt tokens, we {self._prompt_tokens_expected}"
            return Outcome.PROMPT_MISMATCH, f"the server counted {counts}"
        if self._completion_tokens != self._output_tokens:
            return Outcome.SHORT, f"{self._completion_tokens} tokens, asked for {self._output_tokens}"
        return None

    def _http_error(self) -> str:
        raw = b"".join(self._body)
        try:
            parsed = orjson.loads(raw)
        except orjson.JSONDecodeError:
            text = self._excerpt()
        else:
            text = message_of(parsed)
        retry = f" (Retry-After: {self._retry_after})" if self._retry_after else ""
        return f"{self._status}{retry} {text}".rstrip()

    def _excerpt(self) -> str:
        text = b"".join(self._body).decode(errors="replace")
        return re.sub(r"<[^>]*>", " ", text)

    def _exchange(self, outcome: Outcome, error: str, at: float) -> Exchange:
        if self._secret:
            error = error.replace(self._secret, "***")
        return Exchange(
            sent_s=self.sent_s,
            headers_s=self._headers_s,
            first_token_s=self.first_token_s,
            last_token_s=self._chunk_s[-1] if self._chunk_s else None,
            done_s=at,
            chunk_s=tuple(self._chunk_s),
            prompt_tokens=self._prompt_tokens,
            cached_tokens=self._cached_tokens,
            completion_tokens=self._completion_tokens,
            finish_reason=self._finish_reason,
            status=self._status,
            outcome=outcome,
            error=one_line(error),
        )


def _has_token(choice: dict[str, Any]) -> bool:
    delta = choice.get("delta")
    if delta is None:
        return bool(choice.get("text") or choice.get("token_ids"))
    if any(delta.get(field) for field in TEXT_FIELDS):
        return True
    for call in delta.get("tool_calls") or ():
        function = call.get("function") or {}
        if function.get("name") or function.get("arguments"):
            return True
    return False


def message_of(body: object) -> str:
    """What an error object says, in the shapes that engines and proxies use."""
    if isinstance(body, dict):
        inner = body.get("error")
        for holder in (inner, body):
            if isinstance(holder, dict):
                for key in ("message", "detail"):
                    if holder.get(key):
                        return str(holder[key])
        if isinstance(inner, str):
            return inner
    return orjson.dumps(body).decode()


def one_line(text: str) -> str:
    """At most 300 characters, no line breaks, no control characters."""
    flat = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(flat.split())[:ERROR_CHARACTERS]
