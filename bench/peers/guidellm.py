"""GuideLLM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from bench.peers.load import OUTPUT_TOKENS, PROMPT_TOKENS, Load
from bench.peers.results import load_json, number, triple
from bench.peers.tool import Counted, Job, UnreadableError

_RESULT: Final = "result.json"
_PERCENTILES: Final = ("p50", "p95", "p99")


@dataclass(frozen=True, slots=True)
class GuideLLM:
    """A `bench.peers.tool.Tool`."""

    name: str = "GuideLLM"
    environment: str | None = "guidellm"
    env: Mapping[str, str] = field(default_factory=dict)
    note: str = "makes its prompts while it measures"

    def cannot(self, load: Load) -> str | None:
        """It has no turn gaps."""
        return None if load.streams is None else "no gaps between the requests of a caller"

    def command(self, job: Job) -> list[str]:
        """One benchmark of one profile, as many requests as asked."""
        load = job.load
        profile = (
            f"kind=constant,rate={load.rate:g}"
            if load.rate is not None
            else f"kind=concurrent,streams={load.in_flight}"
        )
        backend = f"kind=openai_http,target={job.base_url},model=truth,request_format=/v1/chat/completions"
        return [
            *(str(job.python.with_name("guidellm")), "run", "--disable-console"),
            *("--backend", backend, "--profile", profile),
            *("--constraint", f"kind=max_requests,count={load.requests}"),
            *("--tokenizer", f"kind=hf_auto,model={job.tokenizer}"),
            *("--data", f"kind=synthetic_text,prompt_tokens={PROMPT_TOKENS},output_tokens={OUTPUT_TOKENS}"),
            *("--output", f"kind=json,path={job.folder / _RESULT}"),
        ]

    def read(self, job: Job) -> Counted:
        """The only benchmark of its report; what it calls incomplete has failed. Its percentiles are samples."""
        report = load_json(job.folder / _RESULT)
        try:
            (metrics,) = (benchmark["metrics"] for benchmark in report["benchmarks"])
        except (TypeError, KeyError, ValueError) as error:
            raise UnreadableError("its results hold not exactly one benchmark") from error
        totals = {key: int(number(metrics, "request_totals", key)) for key in ("successful", "errored", "incomplete")}
        return Counted(
            succeeded=totals["successful"],
            failed=totals["errored"] + totals["incomplete"],
            e2e_ms=triple(metrics, ("request_latency", "successful", "percentiles"), _PERCENTILES, scale=1e3),
            ttft_ms=triple(metrics, ("time_to_first_token_ms", "successful", "percentiles"), _PERCENTILES),
            rule="order",
        )
