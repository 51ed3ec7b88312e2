"""AIPerf."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from bench.peers.load import OUTPUT_TOKENS, PROMPT_TOKENS, Load
from bench.peers.results import load_json, number, triple
from bench.peers.tool import Counted, Job

_RESULT: Final = "profile_export_aiperf.json"
_PERCENTILES: Final = ("p50", "p95", "p99")


@dataclass(frozen=True, slots=True)
class AIPerf:
    """A `bench.peers.tool.Tool`. HF_HUB_OFFLINE must not be set: with it, AIPerf refuses a tokenizer's local folder."""

    name: str = "AIPerf"
    environment: str | None = "aiperf"
    env: Mapping[str, str] = field(default_factory=dict)
    note: str = "makes all prompts before it begins"

    def cannot(self, load: Load) -> str | None:
        """Its gaps are between the turns of one conversation, whose prompt grows by every turn."""
        return None if load.streams is None else "gaps only inside conversations whose prompts grow"

    def command(self, job: Job) -> list[str]:
        """Every request with a prompt of its own; tokens as the server counts them, so that nothing is tokenized."""
        load = job.load
        how = (
            ["--request-rate", f"{load.rate:g}", "--arrival-pattern", "constant"]
            if load.rate is not None
            else ["--concurrency", str(load.in_flight)]
        )
        return [
            *(str(job.python.with_name("aiperf")), "profile", "--model", "truth", "--url", job.base_url),
            *("--endpoint-type", "chat", "--streaming", "--tokenizer", str(job.tokenizer)),
            *("--request-count", str(load.requests), "--num-dataset-entries", str(load.requests)),
            *("--isl", str(PROMPT_TOKENS), "--isl-stddev", "0", "--osl", str(OUTPUT_TOKENS), "--osl-stddev", "0"),
            *("--random-seed", "1", "--use-server-token-count", "--ui-type", "none"),
            *("--output-artifact-dir", str(job.folder)),
            *how,
        ]

    def read(self, job: Job) -> Counted:
        """Its summary; percentiles are numpy's. It counts successes, and completed ones, which failures are among."""
        summary = load_json(job.folder / _RESULT)
        succeeded = int(number(summary, "request_count", "avg"))
        return Counted(
            succeeded=succeeded,
            failed=int(number(summary, "completed_request_count", "avg")) - succeeded,
            e2e_ms=triple(summary, ("request_latency",), _PERCENTILES),
            ttft_ms=triple(summary, ("time_to_first_token",), _PERCENTILES),
            rule="linear",
        )
