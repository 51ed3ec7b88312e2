"""inference-perf."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from bench.peers.load import OUTPUT_TOKENS, PROMPT_TOKENS, Load
from bench.peers.results import load_json, number, triple
from bench.peers.tool import Counted, Job

_REPORTS: Final = "reports"
_RESULT: Final = "summary_lifecycle_metrics.json"
_PERCENTILES: Final = ("median", "p95", "p99")


def _fixed(tokens: int, count: int) -> dict[str, Any]:
    return {"type": "fixed", "min": tokens, "max": tokens, "mean": tokens, "std_dev": 0, "total_count": count}


@dataclass(frozen=True, slots=True)
class InferencePerf:
    """A `bench.peers.tool.Tool`."""

    name: str = "inference-perf"
    environment: str | None = "inference-perf"
    env: Mapping[str, str] = field(default_factory=dict)
    note: str = "completions, not chat: its random prompts know no other; makes them while it measures"

    def cannot(self, load: Load) -> str | None:
        """It has no turn gaps."""
        return None if load.streams is None else "no gaps between the requests of a caller"

    def command(self, job: Job) -> list[str]:
        """One stage; the configuration is JSON, which is YAML too."""
        load = job.load
        stage: dict[str, float] = (
            {"rate": load.rate, "duration": math.ceil(load.requests / load.rate)}
            if load.rate is not None
            else {"num_requests": load.requests, "concurrency_level": load.in_flight or 1}
        )
        config = {
            "api": {"type": "completion", "streaming": True},
            "data": {
                "type": "random",
                "input_distribution": _fixed(PROMPT_TOKENS, load.requests),
                "output_distribution": _fixed(OUTPUT_TOKENS, load.requests),
            },
            "load": {
                "type": "concurrent" if load.rate is None else "constant",
                "interval": 0,
                "stages": [stage],
            },
            "report": {
                "request_lifecycle": {
                    "summary": True,
                    "per_stage": False,
                    "per_adapter": False,
                    "percentiles": [50, 95, 99],
                }
            },
            "server": {"type": "vllm", "model_name": "truth", "base_url": job.base_url, "ignore_eos": True},
            "tokenizer": {"pretrained_model_name_or_path": str(job.tokenizer)},
            "storage": {"local_storage": {"path": str(job.folder / _REPORTS)}},
        }
        path = job.folder / "config.yml"
        path.write_bytes(orjson.dumps(config))
        return [str(job.python.with_name("inference-perf")), "-c", str(path)]

    def read(self, job: Job) -> Counted:
        """Its summary; percentiles are numpy's."""
        summary = load_json(job.folder / _REPORTS / _RESULT)
        return Counted(
            succeeded=int(number(summary, "successes", "count")),
            failed=int(number(summary, "failures", "count")),
            e2e_ms=triple(summary, ("successes", "latency", "request_latency"), _PERCENTILES, scale=1e3),
            ttft_ms=triple(summary, ("successes", "latency", "time_to_first_token"), _PERCENTILES, scale=1e3),
            rule="linear",
        )
