"""What a GPU's memory is spent on, in the order in which vLLM 0.26.0 spends it.

`determine_available_memory` in vllm/v1/worker/gpu_worker.py: the KV cache gets the engine's share of the card, less
weights, less the peak of a run at the largest step, less what is allocated beside the allocator, less an estimate for
CUDA graphs. Weights and cache follow from shapes; peak and graph pool are estimates, and say how far they were off in
the starts that were measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.explain.preflight.gpus import GIB
from bench.explain.preflight.weights import BF16, rotary_table_bytes, weights

if TYPE_CHECKING:
    from bench.explain.preflight.captures import Captures
    from bench.explain.preflight.gpus import Card
    from bench.explain.preflight.kv_cache import KvCache
    from bench.explain.preflight.settings import Settings
    from bench.explain.preflight.shapes import ModelShapes
    from bench.explain.preflight.weights import PartWeights

FLOAT32: Final = 4

POOL_FIXED: Final = 0.49 * GIB
POOL_PER_GRAPH: Final = 2 << 20
POOL_PER_TOKEN: Final = 105_000
"""vLLM's own estimate of its graph pool, in bytes: a fixed part, one for each graph, one for each token of the largest.

Solved from three starts on an H200 of the full-size 35B-A3B (102 graphs up to 512 tokens: 0.74 GiB; 96 up to 12,290:
1.88; 20 up to 4,095: 0.93): three numbers from three starts, so nothing checks them but the next one.
"""

SAMPLER_COPIES: Final = BF16 + 3 * FLOAT32
"""Bytes a logit while the sampler is profiled: the model's own, as float32, its softmax, and the noise that it is
divided by (`_dummy_sampler_run` in gpu_model_runner.py, `random_sample` in topk_topp_sampler.py)."""

_CHUNK: Final = 64
"""Tokens of a chunk of the GDN prefill kernels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Bytes.

    Attributes:
        total: the card, as CUDA reports it.
        share: what the engine may use.
        parts: of the weights.
        rotary: table of sines and cosines.
        forward: peak of a step of `max_num_batched_tokens`.
        sampler: peak of sampling for `max_num_seqs` sequences, with what the step keeps.
        non_torch: beside the allocator.
        graph_pool: vLLM's estimate for all graphs; 0 where it makes none, and they come out of the headroom.
        scratch: KV cache that exists only while graphs are profiled.
        rejection: float32 logits of every drafted and every new token, at run time.
        available: left for the KV cache; below zero where nothing is.
        blocks: of the pool.
    """

    total: int
    share: int
    parts: tuple[PartWeights, ...]
    rotary: int
    forward: int
    sampler: int
    non_torch: int
    graph_pool: int
    scratch: int
    rejection: int
    available: int
    blocks: int

    @property
    def weights(self) -> int:
        """All weights, the rotary table with them."""
        return sum(part.total for part in self.parts) + self.rotary

    @property
    def peak(self) -> int:
        """What vLLM calls peak activation: the larger of the two."""
        return max(self.forward, self.sampler)

    @property
    def headroom(self) -> int:
        """Of the card, outside the engine's share."""
        return self.total - self.share

    @property
    def free_at_scratch(self) -> int:
        """Left of the whole card when the scratch cache is allocated: the peak's memory is free again by then."""
        return self.total - self.weights - self.non_torch


def budget_of(shapes: ModelShapes, settings: Settings, captures: Captures, cache: KvCache, card: Card | None) -> Budget:
    """How the memory is spent.

    Args:
        shapes: of the model.
        settings: of the engine.
        captures: the graphs that it captures.
        cache: its KV cache.
        card: None for the CPU, where only weights and the cache are planned.
    """
    parts = weights(shapes, draft=settings.draft_tokens > 0, vision=settings.vision)
    rotary = rotary_table_bytes(shapes)
    total = card.memory_bytes if card else 0
    share = round(total * settings.utilization)
    forward = forward_peak(shapes, settings.max_num_batched_tokens) if card else 0
    sampler = sampler_peak(shapes, settings) if card else 0
    non_torch = round(card.non_torch_gib * GIB) if card else 0
    pool = graph_pool(captures) if card and settings.graphs_estimated else 0
    left = share - sum(p.total for p in parts) - rotary - max(forward, sampler) - non_torch - pool
    available = left if settings.kv_cache_bytes is None else settings.kv_cache_bytes
    return Budget(
        total=total,
        share=share,
        parts=parts,
        rotary=rotary,
        forward=forward,
        sampler=sampler,
        non_torch=non_torch,
        graph_pool=pool,
        scratch=scratch_blocks(settings, captures) * cache.block_bytes if card else 0,
        rejection=rejection_logits(shapes, settings),
        available=available,
        blocks=cache.blocks(available),
    )


def scratch_blocks(settings: Settings, captures: Captures) -> int:
    """Blocks of the cache for graph profiling: one a sequence, before 0.26.0 one for each token of the largest graph.

    `_init_minimal_kv_cache_for_profiling` in gpu_model_runner.py. It looks at the largest size before that is rounded,
    and a cache whose size is given is not profiled at all, nor is any by the second model runner.
    """
    if not captures.graphs or settings.kv_cache_bytes is not None or not settings.graphs_estimated:
        return 0
    largest = max(size for size in captures.asked if size <= settings.max_num_batched_tokens)
    return min(settings.max_num_seqs, largest) if settings.release.scratch_per_sequence else largest


def rejection_logits(shapes: ModelShapes, settings: Settings) -> int:
    """Float32 logits that the rejection sampler makes of all sequences at once; none without drafts."""
    if not settings.draft_tokens:
        return 0
    return settings.max_num_seqs * (settings.draft_tokens + 1) * shapes.vocabulary * FLOAT32


def graph_pool(captures: Captures) -> int:
    """VLLM's own estimate of the memory of all graphs; see `POOL_FIXED`."""
    if not captures.graphs:
        return 0
    return round(POOL_FIXED + POOL_PER_GRAPH * captures.graphs + POOL_PER_TOKEN * captures.largest)


def forward_peak(shapes: ModelShapes, tokens: int) -> int:
    """Peak of a step: workspace of the experts, which stays, and the tensors of one GDN prefill that live at once."""
    hybrid = shapes.hybrid
    keys = hybrid.linear_num_key_heads * hybrid.linear_key_head_dim
    heads = hybrid.linear_num_value_heads
    values = heads * hybrid.linear_value_head_dim
    residual = 2 * shapes.hidden * BF16
    projections = (2 * keys + 2 * values) * BF16
    convolution = (2 * keys + values) * BF16
    chunk_results = 4 * values * BF16  # w, u, new values, output
    chunk_matrix = heads * _CHUNK * (FLOAT32 + BF16)  # and its inverse
    chunk_states = values * hybrid.linear_key_head_dim * BF16 // _CHUNK
    gdn = residual + projections + convolution + chunk_results + chunk_matrix + chunk_states
    return tokens * (gdn + _mlp_workspace(shapes))


def sampler_peak(shapes: ModelShapes, settings: Settings) -> int:
    """Peak of sampling, on top of the experts' workspace and the hidden states of the step before it."""
    logits = settings.max_num_seqs * shapes.vocabulary * SAMPLER_COPIES
    return logits + settings.max_num_batched_tokens * (_mlp_workspace(shapes) + shapes.hidden * BF16)


def _mlp_workspace(shapes: ModelShapes) -> int:
    """Bytes a token: `WorkspaceManager` of fused experts holds two buffers; a dense MLP has its two halves.

    The tokens of all data-parallel ranks come together in the experts, and are then there beside their own.
    """
    experts = shapes.experts
    if experts is None:
        return 3 * shapes.mlp_width * BF16
    one = experts.per_token * (max(2 * experts.width, shapes.hidden) + experts.width) * BF16
    met = shapes.hidden * BF16 if experts.gathered > 1 else 0
    return experts.gathered * (one + met)
