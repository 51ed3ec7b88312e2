"""`vllm bench serve`, from the CPU engine's environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from bench.peers.load import OUTPUT_TOKENS, PROMPT_TOKENS, Load
from bench.peers.results import load_json, number, triple
from bench.peers.tool import Counted, Job

_RESULT: Final = "result.json"

_LAUNCH: Final = """
from vllm.benchmarks.serve import add_cli_args, main
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = FlexibleArgumentParser()
add_cli_args(parser)
main(parser.parse_args())
"""
"""What the command `vllm bench serve` does after it has looked up the version of the distribution called "vllm",
which the CPU build is not."""

_EVEN: Final = "1e6"
"""Shape of the gamma distribution of the gaps: so large that they are all equal."""


@dataclass(frozen=True, slots=True)
class VllmBench:
    """A `bench.peers.tool.Tool`."""

    name: str = "vllm bench serve"
    environment: str | None = "engine-cpu"
    env: Mapping[str, str] = field(
        default_factory=lambda: {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "TRANSFORMERS_OFFLINE": "1"}
    )
    note: str = "takes the role-only chunk for the first token; makes all prompts before it begins"

    def cannot(self, load: Load) -> str | None:
        """It has no turn gaps."""
        return None if load.streams is None else "no gaps between the requests of a caller"

    def command(self, job: Job) -> list[str]:
        """With exact prompt lengths, greedy, as many requests as asked."""
        load = job.load
        how = (
            ["--request-rate", f"{load.rate:g}", "--burstiness", _EVEN]
            if load.rate is not None
            else ["--max-concurrency", str(load.in_flight)]
        )
        return [
            *(str(job.python), "-c", _LAUNCH),
            *("--backend", "openai-chat", "--base-url", job.base_url, "--endpoint", "/v1/chat/completions"),
            *("--model", "truth", "--tokenizer", str(job.tokenizer)),
            *("--dataset-name", "random", "--random-input-len", str(PROMPT_TOKENS)),
            *("--random-output-len", str(OUTPUT_TOKENS), "--num-prompts", str(load.requests)),
            *("--seed", "1", "--ignore-eos", "--temperature", "0", "--disable-tqdm"),
            *("--percentile-metrics", "ttft,e2el", "--metric-percentiles", "50,95,99"),
            *("--save-result", "--result-dir", str(job.folder), "--result-filename", _RESULT),
            *how,
        ]

    def read(self, job: Job) -> Counted:
        """Its result file; percentiles are numpy's."""
        result = load_json(job.folder / _RESULT)
        return Counted(
            succeeded=int(number(result, "completed")),
            failed=int(number(result, "failed")),
            e2e_ms=triple(result, (), ("p50_e2el_ms", "p95_e2el_ms", "p99_e2el_ms")),
            ttft_ms=triple(result, (), ("p50_ttft_ms", "p95_ttft_ms", "p99_ttft_ms")),
            rule="linear",
        )
