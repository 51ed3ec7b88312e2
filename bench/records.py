"""What one request did, as measured by the client: the raw sample that every figure is computed from.

A record is written once, when its request ends, and never changed. All times are seconds on the client's monotonic
clock since the run's epoch (`RunClock`), so that no step of the wall clock can bend a latency.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

E2E_DEFINITION: Final = (
    "E2E runs from the intended send time to the last byte of a complete reply, client queueing included."
)


class Outcome(StrEnum):
    """How a request ended. Everything but `OK` is a failure, and failures count against every limit."""

    OK = "ok"
    """[DONE], a finish reason, usage, and exactly the requested number of tokens."""
    SHORT = "short"
    """A finished reply whose usage reports fewer (or more) tokens than requested."""
    NO_USAGE = "no_usage"
    """A finished reply without a usage block: its tokens cannot be known."""
    NO_FINISH = "no_finish"
    """[DONE] arrived but no finish reason did."""
    NO_DONE = "no_done"
    """The body ended cleanly without [DONE]."""
    EMPTY = "empty"
    """Status 200 and not one chunk with content."""
    CUT = "cut"
    """The connection ended in the middle of the body."""
    PROMPT_MISMATCH = "prompt_mismatch"
    """The server counted another number of prompt tokens than we did: the tokenizers disagree."""
    HTTP_ERROR = "http_error"
    """A status other than 200; `error` starts with the status code."""
    ENGINE_ERROR = "engine_error"
    """An error object inside the stream."""
    BAD_REPLY = "bad_reply"
    """Not the protocol: not HTTP, not an event stream, or events that are not JSON."""
    CONNECT = "connect"
    """No connection could be made."""
    TIMEOUT = "timeout"
    """No complete reply within the recipe's request timeout."""
    CANCELLED = "cancelled"
    """We gave it up: the run was interrupted before the reply was complete."""
    BARGE_IN = "barge_in"
    """The caller interrupted on purpose: not a failure of the engine, and not a latency sample either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """One request.

    Attributes:
        point: index of the operating point in the recipe's ladder, from 0.
        run: index of the engine start, from 0.
        request: number of the request within its point, in order of intended send time at creation.
        stream: index of the stream (or of the worker slot in closed-loop load) within the point; below 0 for a priming
            request: -1, or -1 - r where it primes data-parallel rank r.
        conversation: number of the conversation within its stream, from 0.
        turn: number of the turn within its conversation, from 0.
        agent: name of the agent whose prompt this was.
        primed: True for the priming requests that open a point (they fill the prefix cache; never a latency sample).
        intended_s: when the load model wanted it sent.
        sent_s: when the first byte was handed to the socket; None if it never was.
        headers_s: when the response headers were complete.
        first_token_s: arrival of the first non-empty content, reasoning or tool delta (or text, for completions).
        last_token_s: arrival of the last such delta.
        done_s: arrival of the last byte of the body ([DONE] included); for a failure, when it was known.
        chunk_s: arrivals of every delta with content, same clock; several tokens may share one (speculative decoding).
        prompt_tokens_expected: as counted by our own tokenizer, chat template included.
        prompt_tokens: as reported by the server's usage; None if it reported none.
        cached_tokens: usage's prompt_tokens_details.cached_tokens; None where the server does not report it.
        completion_tokens: from usage, never from chunks.
        requested_tokens: the exact reply length asked for.
        finish_reason: as reported.
        status: HTTP status; None if no response came.
        outcome: see `Outcome`.
        error: one line on what went wrong, at most 300 characters, no secrets; empty when OK.
        segments: the prompt as (key, tokens) pairs, see `bench.workload.turn.Segment`: from these the prefix hit rate
            is predicted again by whoever verifies.
    """

    point: int
    run: int
    request: int
    stream: int
    conversation: int
    turn: int
    agent: str
    primed: bool
    intended_s: float
    sent_s: float | None
    headers_s: float | None
    first_token_s: float | None
    last_token_s: float | None
    done_s: float
    chunk_s: tuple[float, ...]
    prompt_tokens_expected: int
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    requested_tokens: int
    finish_reason: str | None
    status: int | None
    outcome: Outcome
    error: str
    segments: tuple[tuple[int, int], ...]

    @property
    def e2e_s(self) -> float:
        """Seconds from the intended send time to the end, client queueing included."""
        return self.done_s - self.intended_s

    @property
    def ttft_s(self) -> float | None:
        """Seconds from the intended send time to the first token; None if none came."""
        return None if self.first_token_s is None else self.first_token_s - self.intended_s

    @property
    def tpot_s(self) -> float | None:
        """Seconds per output token after the first, from usage (never per chunk); None below two tokens."""
        if self.first_token_s is None or self.last_token_s is None or (self.completion_tokens or 0) < 2:
            return None
        return (self.last_token_s - self.first_token_s) / ((self.completion_tokens or 0) - 1)
