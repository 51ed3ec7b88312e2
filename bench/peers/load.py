"""What every tool is asked to send."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

LAW: Final = {"e2e_p50_s": 0.600, "e2e_p95_s": 0.765}
"""Latency of the reference server: lognormal, the same whatever the load."""

PROMPT_TOKENS: Final = 10_000
OUTPUT_TOKENS: Final = 100
CHUNK_TOKENS: Final = 3
"""As an engine with speculative decoding packs them: 100 tokens in 34 chunks."""

SCRIPT: Final[dict[str, Any]] = {
    "law": LAW,
    # The counts are scripted, so that the server spends no time on counting prompts; and no tool's way of asking for a
    # reply's length changes the reply.
    "default": {"prompt_tokens": PROMPT_TOKENS, "output_tokens": OUTPUT_TOKENS, "chunk_tokens": [CHUNK_TOKENS]},
}
"""For `tests.truth.script.Script`."""

_GOOD: Final[list[dict[str, Any]]] = [{}] * 7
_AFTER: Final = 10
"""Chunks of a reply that go out before it breaks."""

FAULTS: Final[dict[str, Any]] = {
    "requests": [
        *(*_GOOD, {"fault": "cut", "fault_after": _AFTER}),
        *(*_GOOD, {"fault": "close", "fault_after": _AFTER}),
        *(*_GOOD, {"fault": "error_event", "fault_after": _AFTER}),
        *(*_GOOD, {"fault": "no_chunk"}),
        *(*_GOOD, {"status": 503}),
    ],
    "cycle": True,
}
"""Besides `SCRIPT`: every eighth request fails, in five ways in turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One load. Exactly one of `in_flight`, `streams` and `rate` is set.

    Attributes:
        requests: how many shall be measured.
        in_flight: so many always open: the next one is sent when one ends.
        streams: so many callers, each silent for `gap_s` seconds after a reply.
        gap_s: the same every time; only with `streams`.
        rate: arrivals per second at fixed distances, whatever the server does.
        faulty: every eighth request fails (`FAULTS`), in ways that a client must not count as successes.
    """

    requests: int
    in_flight: int | None = None
    streams: int | None = None
    gap_s: float = 2.0
    rate: float | None = None
    faulty: bool = False

    def __post_init__(self) -> None:
        if [self.in_flight, self.streams, self.rate].count(None) != 2:
            raise ValueError("a load has exactly one of in_flight, streams and rate")

    @property
    def name(self) -> str:
        """For people, e.g. "16 in flight"."""
        faults = ", one in 8 fails" if self.faulty else ""
        if self.in_flight is not None:
            return f"{self.in_flight} in flight{faults}"
        if self.streams is not None:
            return f"{self.streams} streams, {self.gap_s:g} s apart{faults}"
        return f"{self.rate:g} a second{faults}"

    @property
    def script(self) -> dict[str, Any]:
        """For the reference server (`tests.truth.script.Script`)."""
        return {**SCRIPT, **FAULTS} if self.faulty else SCRIPT

    @property
    def seconds(self) -> float:
        """About how long the server needs for it, when it is asked as fast as the load says."""
        reply_s = 1.011 * LAW["e2e_p50_s"]  # a lognormal's mean lies above its median: exp(sigma^2 / 2)
        if self.rate is not None:
            return self.requests / self.rate
        if self.streams is not None:
            return self.requests / self.streams * (reply_s + self.gap_s)
        return self.requests / (self.in_flight or 1) * reply_s
