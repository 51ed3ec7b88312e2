"""Our client, by the same interface as every other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from bench.peers.load import Load
from bench.peers.results import load_json, number, triple
from bench.peers.tool import Counted, Job, UnreadableError

NAME: Final = "ours"
RESULT: Final = "result.json"


@dataclass(frozen=True, slots=True)
class Ours:
    """A `bench.peers.tool.Tool`."""

    name: str = NAME
    environment: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    note: str = "makes all prompts before it begins; counts the requests of its steady window only"

    def cannot(self, load: Load) -> str | None:
        """Nothing of what is asked here."""
        del load
        return None

    def command(self, job: Job) -> list[str]:
        """`bench.peers.ours_client`, in a process of its own like every other tool."""
        load = job.load
        kind, value = next(
            (kind, value)
            for kind, value in (("in-flight", load.in_flight), ("streams", load.streams), ("rate", load.rate))
            if value is not None
        )
        return [
            *(str(job.python), "-m", "bench.peers.ours_client", "--base-url", job.base_url),
            *(f"--{kind}", f"{value:g}", "--gap-s", f"{load.gap_s:g}", "--steady-s", f"{load.seconds:.3f}"),
            *("--result", str(job.folder / RESULT)),
        ]

    def read(self, job: Job) -> Counted:
        """What `bench.peers.ours_client` wrote; percentiles are samples."""
        result = load_json(job.folder / RESULT)
        tags = result.get("tags") if isinstance(result, dict) else None
        if not isinstance(tags, list):
            raise UnreadableError("its results name no requests")
        return Counted(
            succeeded=int(number(result, "succeeded")),
            failed=int(number(result, "failed")),
            e2e_ms=triple(result, ("e2e_ms",), ("p50", "p95", "p99")),
            ttft_ms=triple(result, ("ttft_ms",), ("p50", "p95", "p99")),
            rule="order",
            tags=frozenset(tags),
        )
