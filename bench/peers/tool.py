"""What the runner knows of a tool: how it is started, what it cannot do, what it says it measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from bench.peers.load import Load

Rule: TypeAlias = Literal["order", "linear"]
"""How a tool makes a percentile of its samples: an order statistic, or interpolated between two (numpy's default)."""

Triple: TypeAlias = tuple[float, float, float]
"""Of p50, p95, p99."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One start of a tool.

    Attributes:
        load: what to send.
        base_url: of the reference server, without a path.
        folder: empty, for whatever the tool writes.
        python: interpreter of the tool's own environment.
        tokenizer: folder with a tokenizer.json, for tools that make prompts of a number of tokens.
    """

    load: Load
    base_url: str
    folder: Path
    python: Path
    tokenizer: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What a tool says it measured.

    Attributes:
        succeeded, failed: requests.
        e2e_ms, ttft_ms: its own p50, p95 and p99, from its own output.
        rule: how it made them.
        tags: exactly the requests that it counts, by the tags of the reference server; None for a tool that sends none:
            then it counts all that it sends.
    """

    succeeded: int
    failed: int
    e2e_ms: Triple
    ttft_ms: Triple
    rule: Rule
    tags: frozenset[str] | None = None


class UnreadableError(Exception):
    """A tool left no results, or not in the form that its pinned version writes."""


class Tool(Protocol):
    """One tool."""

    @property
    def name(self) -> str:
        """For the table."""
        ...

    @property
    def environment(self) -> str | None:
        """Name in docker/pins.toml of the environment that it runs in; None for our own."""
        ...

    @property
    def env(self) -> Mapping[str, str]:
        """Environment variables that it needs."""
        ...

    @property
    def note(self) -> str:
        """What a reader must know of its rows; may be empty."""
        ...

    def cannot(self, load: Load) -> str | None:
        """Why the tool cannot do this load; None where it can."""
        ...

    def command(self, job: Job) -> list[str]:
        """The command line; writes into the job's folder what it refers to."""
        ...

    def read(self, job: Job) -> Counted:
        """The results.

        Raises:
            UnreadableError: there are none.
        """
        ...
