"""The lines of a plan that are about memory: weights, KV cache, graphs, and what is left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.explain.preflight.budget import POOL_FIXED, POOL_PER_GRAPH, POOL_PER_TOKEN, SAMPLER_COPIES, scratch_blocks
from bench.explain.preflight.gpus import GIB
from bench.explain.preflight.plan import Line
from bench.report.render.words import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.explain.preflight.plan import Basis
    from bench.explain.preflight.start_log import StartFacts
    from bench.explain.preflight.weights import PartWeights

MODELS: Final = "vLLM 0.26.0, vllm/model_executor/models/qwen3_5.py"
_UTILS: Final = "vllm/v1/core/kv_cache_utils.py"
_WORKER: Final = "vllm/v1/worker/gpu_worker.py"
_RUNNER: Final = "vllm/v1/worker/gpu_model_runner.py"
_CENT: Final = 0.005 * GIB
"""The engine prints memory in GiB with two digits behind the point."""


def parallel_lines(basis: Basis) -> Iterator[Line]:
    """How many GPUs, and what each of them has; nothing for one."""
    tensor, data, replicas = basis.settings.tensor, basis.settings.data, basis.recipe.replicas
    if tensor * data * replicas == 1:
        return
    ranks = f"{data} data-parallel ranks" if data > 1 else "one rank"
    each = f", each over {tensor} GPUs (tensor parallel)" if tensor > 1 else ""
    experts = "; routed experts divided among all" if data > 1 and basis.model.shapes.experts is not None else ""
    side_by_side = f"{replicas} replicas, independent engines, of {ranks}" if replicas > 1 else ranks
    yield Line(
        key="parallel.gpus",
        label="GPUs of the engine" if replicas == 1 else "GPUs of all replicas",
        value=tensor * data * replicas,
        unit="GPUs",
        how=f"{side_by_side}{each}{experts}; memory below is one GPU's, sequences and blocks one rank's",
        source="vllm/model_executor/layers/fused_moe/config.py, flatten_tp_across_dp_and_pcp",
    )


def weight_lines(basis: Basis, facts: StartFacts) -> Iterator[Line]:
    """Weights, part by part."""
    for part in basis.budget.parts:
        yield Line(
            key=f"weights.{part.part.lower().replace(' ', '_')}",
            label=part.part,
            value=part.total,
            unit="bytes",
            how=_stored(part, basis),
            source=MODELS,
        )
    yield Line(
        key="weights.rotary",
        label="rotary table",
        value=basis.budget.rotary,
        unit="bytes",
        how=f"{basis.model.shapes.positions:,} positions x {basis.model.shapes.rotary} dimensions x 2 B",
        source="vllm/model_executor/layers/rotary_embedding",
    )
    yield Line(
        key="weights.total",
        label="all weights",
        value=basis.budget.weights,
        unit="bytes",
        how="sum of the parts; the engine's figure has its small buffers in it",
        source=f"config: {basis.model.source}; {basis.model.shapes.quantization.why}",
        measured=_gib(facts.weights),
        rounding=_CENT,
    )


def _stored(part: PartWeights, basis: Basis) -> str:
    scheme = {"bf16": "BF16", "fp8": "FP8", "nvfp4": "FP4"}[basis.model.shapes.quantization.scheme]
    pieces = []
    if part.quantized:
        bits = 8 * (part.quantized + part.scales) / (part.parameters - part.plain // 2)
        pieces.append(f"{scheme} values with scales, {bits:.4g} bits each")
    if part.plain:
        pieces.append(f"{part.plain // 2:,} in BF16")
    return f"{part.parameters:,} parameters: {', '.join(pieces)}"


def cache_lines(basis: Basis, facts: StartFacts) -> Iterator[Line]:
    """What a token, a block and a sequence take, and how many fit."""
    cache, budget, settings = basis.cache, basis.budget, basis.settings
    state = f"state of {cache.state_bytes:,} B"
    yield Line(
        key="kv.token",
        label="KV of one token",
        value=cache.token_bytes_all_layers,
        unit="bytes",
        how=f"{plural(cache.attention_layers, 'attention layer')} x {cache.token_bytes:,} B "
        f"(2 x heads x width x {settings.kv_bytes} B)",
        source="vllm/v1/kv_cache_interface.py, FullAttentionSpec",
    )
    yield Line(
        key="kv.block_size",
        label="attention block",
        value=cache.block_size,
        unit="tokens",
        how=f"{state} / {cache.token_bytes:,} B a token, up to a multiple of {settings.block_alignment}",
        source="vllm/platforms/interface.py, _align_hybrid_block_size",
        measured=facts.block_size,
    )
    yield Line(
        key="kv.block",
        label="one block of the pool",
        value=cache.block_bytes,
        unit="bytes",
        how=f"page of {cache.page_bytes:,} B x {plural(cache.group_size, 'layer')} of a group"
        + (f"; {cache.padding_layers} layers are padding" if cache.padding_layers else ""),
        source=f"{_UTILS}, _get_kv_cache_groups_uniform_page_size",
    )
    yield Line(
        key="kv.state",
        label="GDN state of a sequence",
        value=cache.sequence_state_bytes,
        unit="bytes",
        how=f"{cache.state_blocks} blocks ({'aligned' if settings.prefix_caching else 'newest only'}"
        f"{f', {settings.draft_tokens} for drafts' if settings.draft_tokens else ''}) x {cache.gdn_groups} groups",
        source="vllm/v1/kv_cache_interface.py, MambaSpec.max_memory_usage_bytes",
    )
    yield Line(
        key="kv.available",
        label="memory for the KV cache",
        value=budget.available,
        unit="bytes",
        how="given" if settings.kv_cache_bytes is not None else "share - weights - peak - beside torch - graph pool",
        source=f"{_WORKER}, determine_available_memory",
        measured=_gib(facts.available),
        rounding=_CENT,
    )
    yield Line(
        key="kv.blocks",
        label="blocks",
        value=budget.blocks,
        unit="blocks",
        how="memory / block, whole ones",
        source=f"{_UTILS}, get_num_blocks",
    )
    yield Line(
        key="kv.tokens",
        label="KV cache size",
        value=cache.tokens(budget.blocks, basis.longest),
        unit="tokens",
        how=f"blocks / {cache.blocks_of(basis.longest)} a sequence of {basis.longest:,} tokens x {basis.longest:,}",
        source=f"{_UTILS}, get_kv_cache_capacity",
        measured=facts.kv_tokens,
    )
    tokens = basis.recipe.workload.prompt_tokens + basis.recipe.workload.output_tokens
    yield Line(
        key="kv.sequences",
        label="sequences of the workload",
        value=cache.sequences(budget.blocks, tokens),
        unit="sequences",
        how=f"blocks / {cache.blocks_of(tokens)} a sequence of {tokens:,} tokens, none sharing a prefix",
        source=f"{_UTILS}, get_max_concurrency_for_kv_cache_config",
    )


def graph_lines(basis: Basis, facts: StartFacts) -> Iterator[Line]:
    """CUDA graphs that will really be captured."""
    captures, settings = basis.captures, basis.settings
    if not captures.graphs:
        return
    step = settings.draft_tokens + 1
    rounding = f"up to multiples of k + 1 = {step}" if step > 1 and captures.graphs else "as asked for"
    yield Line(
        key="graphs.piecewise",
        label="graphs for mixed steps",
        value=len(captures.piecewise),
        unit="graphs",
        how=f"{len(captures.asked)} sizes, {rounding}, at most max_num_batched_tokens",
        source="vllm/config/compilation.py, adjust_cudagraph_sizes_for_spec_decode",
        measured=facts.piecewise,
    )
    yield Line(
        key="graphs.full",
        label="graphs for decoding steps",
        value=len(captures.full),
        unit="graphs",
        how=f"of these, from {step} to max_num_seqs x {step} = {settings.max_num_seqs * step:,} tokens",
        source="vllm/v1/cudagraph_dispatcher.py, initialize_cudagraph_keys",
        measured=facts.full,
    )
    yield Line(
        key="graphs.largest",
        label="largest graph",
        value=captures.largest,
        unit="tokens",
        how=f"dropped in silence: {', '.join(f'{size:,}' for size in captures.dropped)}"
        if captures.dropped
        else "none was dropped",
        source="vllm/config/compilation.py, adjust_cudagraph_sizes_for_spec_decode",
        measured=facts.largest,
    )


def spending_lines(basis: Basis, facts: StartFacts) -> Iterator[Line]:
    """What the card's memory goes to beside weights and cache."""
    budget, settings, card = basis.budget, basis.settings, basis.card
    if card is None:
        return
    yield Line(
        key="memory.total",
        label="the card",
        value=budget.total,
        unit="bytes",
        how=f"{card.memory_gb:g} GB published; CUDA reports {card.cuda_gib:.2f} GiB",
        source=card.sources["cuda_gib"],
        measured=_gib(facts.total),
        rounding=0.05 * GIB,
    )
    yield Line(
        key="memory.share",
        label="the engine's share",
        value=budget.share,
        unit="bytes",
        how=f"x {settings.utilization:g} gpu_memory_utilization"
        + (" (vLLM's default)" if "gpu_memory_utilization" in settings.defaulted else ""),
        source="vllm/config/cache.py",
    )
    larger = "sampling" if budget.sampler > budget.forward else "the forward pass"
    yield Line(
        key="memory.peak",
        label="peak of a step (estimate)",
        value=budget.peak,
        unit="bytes",
        how=f"{larger}; forward {_in_gib(budget.forward)} for {settings.max_num_batched_tokens:,} tokens, sampling "
        f"{_in_gib(budget.sampler)} for {settings.max_num_seqs:,} sequences x vocabulary x {SAMPLER_COPIES} B",
        source=f"{_RUNNER}, profile_run: tensors alive at once, added up",
        measured=_gib(facts.peak),
        rounding=_CENT,
    )
    yield Line(
        key="memory.non_torch",
        label="beside torch",
        value=budget.non_torch,
        unit="bytes",
        how="CUDA context and libraries"
        + ("; what NCCL takes between GPUs is not in it" if settings.tensor * settings.data > 1 else ""),
        source=card.sources["non_torch_gib"],
        measured=_gib(facts.non_torch),
        rounding=_CENT,
    )
    yield Line(
        key="memory.graph_pool",
        label="graph pool (vLLM's estimate)",
        value=budget.graph_pool,
        unit="bytes",
        how=f"{POOL_FIXED / GIB:.2f} GiB + {POOL_PER_GRAPH >> 20} MiB a graph + {POOL_PER_TOKEN / 1000:.0f} kB a token "
        "of the largest"
        if settings.graphs_estimated
        else "the second model runner estimates none: graphs come out of what is outside the share",
        source="solved from three H200 starts of this model; nothing else checks it"
        if settings.graphs_estimated
        else "vllm/v1/worker/gpu/model_runner.py, profile_cudagraph_memory",
        measured=_gib(facts.pool_estimated),
        rounding=_CENT,
    )
    yield Line(
        key="memory.scratch",
        label="scratch KV while graphs are profiled",
        value=budget.scratch,
        unit="bytes",
        how=f"{scratch_blocks(settings, basis.captures):,} blocks, one a "
        + ("sequence" if settings.release.scratch_per_sequence else "token of the largest graph (before 0.26.0)"),
        source=f"{_RUNNER}, _init_minimal_kv_cache_for_profiling; vllm-project/vllm#48483",
    )
    yield Line(
        key="memory.rejection",
        label="rejection sampler's logits",
        value=budget.rejection,
        unit="bytes",
        how=f"max_num_seqs x {settings.draft_tokens + 1} x vocabulary x 4 B"
        if settings.draft_tokens
        else "no drafts to reject",
        source="vllm-project/vllm#48630"
        + ("; in chunks in this release" if settings.release.rejection_chunked else "; not profiled in this release"),
    )
    yield Line(
        key="memory.headroom",
        label="outside the share",
        value=budget.headroom,
        unit="bytes",
        how="card - share",
        source=_WORKER,
    )


def _gib(value: float | None) -> float | None:
    return None if value is None else value * GIB


def _in_gib(value: int) -> str:
    return f"{value / GIB:.2f} GiB"
