"""What the reference server did: the truth that a client's records are compared with, and vLLM's counters."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import orjson


@dataclass(slots=True, kw_only=True)
class Truth:
    """One generation request. Times are seconds of CLOCK_MONOTONIC, which every process of one host shares.

    Attributes:
        number: of arrival, from 0.
        tag: from the script.
        fault: from the script.
        received_s: when the kernel received the request's first byte (its own stamp where it gives one).
        complete_s: when the whole request had been read.
        started_s: when it got its turn; later than `complete_s` only when it had to wait.
        headers_s, first_token_s, last_token_s, done_s: when those bytes were handed to the kernel; null if never.
        role_s: likewise the role-only chunk.
        chunk_s: likewise every chunk with content.
        ended: "complete", "cut" (by us, as scripted), "client" (it closed the connection first), "shutdown".
        ended_s: when.
        prompt_tokens, cached_tokens, generated_tokens: counted, whatever was reported; `generated_tokens` stops growing
            when the client is gone.
        status: HTTP status sent; null if none.
        in_flight: requests open when this one arrived, itself included.
        reused: it came on a connection that had carried a request before.
    """

    number: int
    tag: str
    fault: str
    received_s: float
    complete_s: float
    started_s: float | None = None
    headers_s: float | None = None
    role_s: float | None = None
    first_token_s: float | None = None
    last_token_s: float | None = None
    done_s: float | None = None
    chunk_s: list[float] = field(default_factory=list)
    ended: Literal["complete", "cut", "client", "shutdown", ""] = ""
    ended_s: float = 0.0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0
    status: int | None = None
    in_flight: int = 0
    reused: bool = False

    @property
    def e2e_s(self) -> float | None:
        """From the request's first byte to the reply's last; null for a reply that never ended."""
        return None if self.done_s is None else self.done_s - self.received_s

    @property
    def ttft_s(self) -> float | None:
        """From the request's first byte to the first chunk with content."""
        return None if self.first_token_s is None else self.first_token_s - self.received_s


@dataclass(slots=True)
class Ledger:
    """All truths so far, and the counters that /metrics shows.

    Attributes:
        path: each truth is appended to this file when its request ends; None keeps them in memory only.
    """

    path: Path | None = None
    ended: list[Truth] = field(default_factory=list)
    running: int = 0
    waiting: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generation_tokens: int = 0
    finished: Counter[str] = field(default_factory=Counter)
    drafts: int = 0
    accepted: list[int] = field(default_factory=list)
    _fd: int = -1

    def __post_init__(self) -> None:
        if self.path is not None:
            self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def end(self, truth: Truth) -> None:
        """A request ended, one way or another."""
        self.ended.append(truth)
        if self._fd >= 0:
            os.write(self._fd, orjson.dumps(truth) + b"\n")

    def chunk(self, tokens: int) -> None:
        """So many tokens were generated in one step; all but one of them were drafts that were accepted."""
        self.generation_tokens += tokens
        self.drafts += 1
        while len(self.accepted) < tokens - 1:
            self.accepted.append(0)
        for position in range(tokens - 1):
            self.accepted[position] += 1

    def jsonl(self) -> bytes:
        """Every truth, one JSON object a line, in order of ending."""
        return b"".join(orjson.dumps(truth) + b"\n" for truth in self.ended)

    def metrics(self, *, model: str, block_size: int, prefix_caching: bool, mamba: str | None = None) -> bytes:
        """The counters in Prometheus' text format, under vLLM's names and labels."""
        label = f'engine="0",model_name="{model}"'
        states = "" if mamba is None else f'mamba_cache_mode="{mamba}",'
        positions = len(self.accepted)
        lines = [
            *_family("prompt_tokens", "counter", {f"_total{{{label}}}": self.prompt_tokens}),
            *_family("generation_tokens", "counter", {f"_total{{{label}}}": self.generation_tokens}),
            *_family(
                "request_success",
                "counter",
                {
                    f'_total{{{label},finished_reason="{reason}"}}': self.finished[reason]
                    for reason in ("stop", "length", "abort", "error")
                },
            ),
            *_family("prefix_cache_queries", "counter", {f"_total{{{label}}}": self.prompt_tokens}),
            *_family("prefix_cache_hits", "counter", {f"_total{{{label}}}": self.cached_tokens}),
            *_family("num_preemptions", "counter", {f"_total{{{label}}}": 0}),
            *_family("spec_decode_num_drafts", "counter", {f"_total{{{label}}}": self.drafts}),
            *_family("spec_decode_num_draft_tokens", "counter", {f"_total{{{label}}}": self.drafts * positions}),
            *_family("spec_decode_num_accepted_tokens", "counter", {f"_total{{{label}}}": sum(self.accepted)}),
            *_family(
                "spec_decode_num_accepted_tokens_per_pos",
                "counter",
                {f'_total{{{label},position="{index}"}}': value for index, value in enumerate(self.accepted)},
            ),
            *_family("num_requests_running", "gauge", {f"{{{label}}}": self.running}),
            *_family("num_requests_waiting", "gauge", {f"{{{label}}}": self.waiting}),
            *_family("kv_cache_usage_perc", "gauge", {f"{{{label}}}": 0.0}),
            *_family(
                "cache_config_info",
                "gauge",
                {f'{{block_size="{block_size}",enable_prefix_caching="{prefix_caching}",{states}engine="0"}}': 1.0},
            ),
        ]
        return "\n".join(lines).encode() + b"\n"


def _family(name: str, kind: str, samples: dict[str, float]) -> list[str]:
    head = [f"# HELP vllm:{name} Scripted.", f"# TYPE vllm:{name} {kind}"]
    return head + [f"vllm:{name}{suffix} {float(value)}" for suffix, value in samples.items()]
