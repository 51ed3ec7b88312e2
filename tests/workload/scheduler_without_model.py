"""Runs in the engine's environment: vLLM's own scheduler serves requests without a model, and tells their prefix hits.

Reads runs from standard input, one JSON object a line: `rules` as those of `bench.workload.prefix_cache_rules`, and
`requests`, each [[key, tokens, key, tokens, ...], output tokens, step]: the step at which it is sent, null for requests
that are sent when the former one has ended. Writes one JSON object a run: `served`, per request [start, end, hit,
ends]: the steps in which it was sent and ended, its hit tokens, and where each step of its prefill ended, in tokens;
and `steps`, the tokens of each step.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass, field
from typing import Any

# Before the import: vLLM reads its environment there.
os.environ |= {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_USE_V2_MODEL_RUNNER": "0"}

import torch
from vllm.config import VllmConfig
from vllm.engine.arg_utils import EngineArgs
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec, MambaSpec
from vllm.v1.outputs import DraftTokenIds, ModelRunnerOutput
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

LONGEST = 100_000
"""Tokens of the longest segment, and of the longest prompt."""
DRAFT = 7
"""Any token: every draft is rejected, as the prediction assumes."""


def configuration(checkpoint: str, drafts: int) -> VllmConfig:
    """What the scheduler reads of an engine's configuration; cache and budget are set for each run."""
    options: dict[str, Any] = {
        "model": checkpoint,
        "max_model_len": LONGEST,
        "hf_overrides": {"text_config": {"max_position_embeddings": LONGEST}},
        "max_num_seqs": 64,
        "max_num_batched_tokens": LONGEST,
        "block_size": 128,
        "enable_prefix_caching": True,
        "mamba_cache_mode": "align",
        "language_model_only": True,
        "async_scheduling": False,
    }
    if drafts:
        options["speculative_config"] = {"method": "mtp", "num_speculative_tokens": drafts}
    return EngineArgs(**options).create_engine_config()


def scheduler_of(config: VllmConfig, rules: dict[str, Any]) -> Scheduler:
    """A scheduler with the cache of these rules: recurrent groups first, as an engine has them."""
    size, drafts = rules["block_size"], rules["draft_tokens"]
    config.scheduler_config.max_num_batched_tokens = rules["chunk_tokens"]
    config.scheduler_config.max_num_scheduled_tokens = rules["chunk_tokens"]
    config.cache_config.block_size = size
    config.cache_config.num_gpu_blocks = rules["num_gpu_blocks"]
    state = MambaSpec(
        block_size=size,
        shapes=((8,),),
        dtypes=(torch.float32,),
        mamba_cache_mode="align",
        num_speculative_blocks=drafts,
    )
    attention = FullAttentionSpec(block_size=size, num_kv_heads=1, head_size=8, dtype=torch.float32)
    groups = [KVCacheGroupSpec([f"state.{group}"], state) for group in range(rules["state_groups"])]
    groups.append(KVCacheGroupSpec(["attention"], attention, is_eagle_group=drafts > 0))
    return Scheduler(
        vllm_config=config,
        kv_cache_config=KVCacheConfig(num_blocks=rules["num_gpu_blocks"], kv_cache_tensors=[], kv_cache_groups=groups),
        structured_output_manager=StructuredOutputManager(config),
        block_size=size,
        hash_block_size=rules["match_unit"] or size,
        log_stats=True,
    )


@dataclass
class Served:
    """A request that was sent."""

    start: int
    end: int = -1
    hit: int = -1
    ends: list[int] = field(default_factory=list)


class Run:
    """One run of requests through one scheduler."""

    def __init__(self, config: VllmConfig, run: dict[str, Any]) -> None:
        self._scheduler = scheduler_of(config, run["rules"])
        self._drafts: int = run["rules"]["draft_tokens"]
        self._hasher = get_request_block_hasher(self._scheduler.hash_block_size, sha256)
        self._requests = run["requests"]
        self._served: list[Served] = []
        self._now = 0
        self.steps: list[int] = []

    def serve(self) -> list[tuple[int, int, int, list[int]]]:
        """Start, end, hit and the prefill's ends of each request."""
        while len(self._served) < len(self._requests) or self._scheduler.requests:
            while len(self._served) < len(self._requests):
                due = self._requests[len(self._served)][2]
                if due > self._now if due is not None else self._scheduler.requests:
                    break
                self._send()
            self._step()
        return [(served.start, served.end, served.hit, served.ends) for served in self._served]

    def _send(self) -> None:
        flat, output_tokens, _ = self._requests[len(self._served)]
        tokens = [key * LONGEST + at for key, length in zip(flat[::2], flat[1::2], strict=True) for at in range(length)]
        self._scheduler.add_request(
            Request(
                request_id=str(len(self._served)),
                prompt_token_ids=tokens,
                sampling_params=SamplingParams(max_tokens=output_tokens, ignore_eos=True),
                pooling_params=None,
                block_hasher=self._hasher,
            )
        )
        self._served.append(Served(start=self._now))

    def _step(self) -> None:
        scheduled = self._scheduler.schedule()
        self._now += 1
        self.steps.append(scheduled.total_num_scheduled_tokens)
        ids = list(scheduled.num_scheduled_tokens)
        if not ids:
            return
        sampled = []
        for name in ids:
            request = self._scheduler.requests[name]
            if request.prefill_stats is not None:
                self._served[int(name)].hit = request.prefill_stats.num_cached_tokens
            if request.num_computed_tokens - scheduled.num_scheduled_tokens[name] < request.num_prompt_tokens:
                self._served[int(name)].ends.append(request.num_computed_tokens)
            drafted = len(scheduled.scheduled_spec_decode_tokens.get(name, ()))
            prompt_done = request.num_computed_tokens - drafted >= request.num_prompt_tokens
            sampled.append([-self._now] if prompt_done else [])  # a token that no prompt has
        self._scheduler.update_from_output(
            scheduled,
            ModelRunnerOutput(
                req_ids=ids,
                req_id_to_index={name: index for index, name in enumerate(ids)},
                sampled_token_ids=sampled,
                logprobs=None,
                prompt_logprobs_dict={},
                pooler_output=[],
            ),
        )
        going_on = [
            name for name, tokens in zip(ids, sampled, strict=True) if tokens and name in self._scheduler.requests
        ]
        if self._drafts and going_on:
            drafts = [[DRAFT] * self._drafts for _ in going_on]
            self._scheduler.update_draft_token_ids(DraftTokenIds(going_on, drafts))
        for name in ids:
            if name not in self._scheduler.requests:
                self._served[int(name)].end = self._now


def main(checkpoint: str) -> None:
    """Serve every run."""
    init_none_hash(sha256)
    configs: dict[int, VllmConfig] = {}
    for line in sys.stdin:
        run = json.loads(line)
        drafts = run["rules"]["draft_tokens"]
        if drafts not in configs:
            configs[drafts] = configuration(checkpoint, drafts)
        one = Run(configs[drafts], run)
        sys.stdout.write(json.dumps({"served": one.serve(), "steps": one.steps}) + "\n")


main(sys.argv[1])
