"""What fits, what is tight, what cannot be, and which flag changes it.

Beside a rule stands the public report of somebody who ran into it; a number alone is one of vllm-project/vllm.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from bench.explain.preflight.gpus import GIB
from bench.explain.preflight.lasting import lasting_of
from bench.explain.preflight.plan import Verdict
from bench.explain.preflight.prefix import MANY_STEPS
from bench.explain.preflight.releases import READ
from bench.explain.preflight.sharding import indivisible
from bench.report.render.words import percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.explain.preflight.blocks import Blocks, Choice
    from bench.explain.preflight.plan import Basis
    from bench.explain.preflight.prefix import MeanPrefill

LASTING: Final = "lasting hits"
_LEAST_HEADROOM: Final = GIB
"""Outside the share: the graph pool may turn out larger than its estimate (by 0.46 GiB in the one start that says)."""
_NARROW: Final = 0.8
"""A temporary allocation of more than this share of what is free is tight: fragments count too."""
_LOST: Final = 0.1
"""A shared prefix that loses more than this share of itself at block boundaries is worth another length."""
_ONE_STEP: Final = 1.05
"""What rounds to one step."""
_NO_UNIT: Final = "no prefix_match_unit"
_ALIKE: Final = (
    "On an H200 a step with 3,500 tokens took little longer than one with 1,000 (evidence/h200/attribution-20261130)"
)
_SMALL_LARGEST: Final = 512
"""A largest capture size that no scratch cache of any release makes too large."""
_ORDER: Final = ("fits", "tight", "cannot")


def verdicts_of(basis: Basis, blocks: Blocks | None = None) -> tuple[Verdict, ...]:
    """Every requirement that applies, in the order of a start.

    Args:
        basis: of the plan.
        blocks: that were tried; None where nobody asked. They change no verdict, only what one says.
    """
    found = [
        *_release(basis),
        *_parallel(basis),
        *_card(basis),
        *_cache(basis),
        *_load(basis),
        *_graphs(basis),
        *_prefix(basis),
        *_states(basis),
        *_lasting(basis),
        *_steps(basis, blocks),
    ]
    return tuple(found)


def worst(verdicts: Sequence[Verdict]) -> str:
    """The verdict of the whole plan."""
    return max((v.verdict for v in verdicts), key=_ORDER.index, default="fits")


def _release(basis: Basis) -> Iterator[Verdict]:
    release = basis.settings.release
    if not release.was_read:
        yield Verdict(
            name="release",
            verdict="tight",
            why=f"the rules are those of vLLM {READ}; of {release.version} only some differences are known here, and "
            "its options were not checked",
            change=f"engine.version = {READ}, or read every line with that in mind",
        )
    if basis.settings.not_modelled:
        yield Verdict(
            name="flags",
            verdict="tight",
            why=f"{', '.join(basis.settings.not_modelled)}: what this changes is not in the plan",
            change="read the plan without it",
        )
    if basis.model.assumed:
        yield Verdict(
            name="checkpoint",
            verdict="tight",
            why=basis.model.assumed,
            change="--config with the checkpoint's own config.json",
        )


def _parallel(basis: Basis) -> Iterator[Verdict]:
    """What dividing the model among GPUs meets."""
    settings, experts = basis.settings, basis.model.shapes.experts
    if odd := list(indivisible(basis.model.shapes, settings)):
        yield Verdict(
            name="GPUs",
            verdict="cannot",
            why=f"does not divide: {'; '.join(odd)}",
            change="tensor_parallel_size or data_parallel_size, or enable_expert_parallel where it is the experts",
        )
    if settings.data == 1 or experts is None:
        return
    if settings.cpu:  # seen on the release: CpuCommunicator has no all_gatherv
        yield Verdict(
            name="data parallel",
            verdict="cannot",
            why="the CPU build cannot bring the tokens of several ranks together in the experts (NotImplementedError "
            "in its warm-up)",
            change="a dense model, or without data_parallel_size",
        )
        return
    yield Verdict(
        name="data parallel",
        verdict="tight",
        why=f"no {settings.data} independent replicas: the experts are divided among all ranks, which take every step "
        "together; a prefill at one rank holds up the decodes of the others",
        change=f"for independent replicas engine.replicas = {settings.data}, without data_parallel_size",
    )


def _card(basis: Basis) -> Iterator[Verdict]:
    card, budget, settings = basis.card, basis.budget, basis.settings
    if card is None:
        return
    scheme = basis.model.shapes.quantization.scheme
    if scheme == "nvfp4" and "nvfp4" not in card.tflops:
        yield Verdict(
            name="FP4",
            verdict="tight",
            why=f"{card.match} has no FP4 arithmetic: vLLM unpacks the weights (Marlin); this measures no NVFP4",
            change="--gpu B200",
        )
    needed = budget.weights + budget.non_torch
    fits = needed < budget.share
    yield Verdict(
        name="weights",
        verdict="fits" if fits else "cannot",
        why=f"{_gib(needed)} of the share of {_gib(budget.share)}",
        change="" if fits else "a larger card, weights of fewer bits, or gpu_memory_utilization if others leave room",
    )
    yield from _scratch(basis)
    if budget.headroom < _LEAST_HEADROOM:
        yield Verdict(
            name="headroom",
            verdict="tight",
            why=f"{_gib(budget.headroom)} outside the share; a graph pool larger than its estimate then ends the start",
            change=f"gpu_memory_utilization at most {(budget.total - _LEAST_HEADROOM) / budget.total:.2f}",
        )
    room = budget.peak + max(budget.headroom, 0)
    if budget.rejection and not settings.release.rejection_chunked:
        yield Verdict(
            name="rejection sampler",
            verdict="cannot" if budget.rejection > room else "tight" if budget.rejection > budget.peak else "fits",
            why=f"{_gib(budget.rejection)} of logits at max_num_seqs = {settings.max_num_seqs}; kept free for a step "
            f"are {_gib(budget.peak)}, outside the share {_gib(budget.headroom)}",
            change="" if budget.rejection <= budget.peak else "a lower max_num_seqs, or vLLM 0.28.0",
        )


def _scratch(basis: Basis) -> Iterator[Verdict]:
    """See #48483: this allocation, and not the serving cache, fails before any "Available KV cache memory"."""
    budget, release = basis.budget, basis.settings.release
    if not budget.scratch:
        return
    free = max(budget.free_at_scratch, 0)
    verdict = "cannot" if budget.scratch > free else "tight" if budget.scratch > _NARROW * free else "fits"
    change = "a lower max_num_seqs, or kv_cache_memory_bytes, which skips graph profiling"
    if not release.scratch_per_sequence:
        change = (
            f"vLLM {READ}; on this release kv_cache_memory_bytes, or a largest capture size of {_SMALL_LARGEST} "
            "(VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0 does not skip it)"
        )
    yield Verdict(
        name="scratch KV of graph profiling",
        verdict=verdict,  # type: ignore[arg-type]  # one of the three, as just chosen
        why=f"{_gib(budget.scratch)} while {_gib(free)} are free",
        change="" if verdict == "fits" else change,
    )


def _cache(basis: Basis) -> Iterator[Verdict]:
    budget, cache, settings = basis.budget, basis.cache, basis.settings
    if budget.available <= 0:  # #27508
        yield Verdict(
            name="KV cache",
            verdict="cannot",
            why=f"{_gib(-budget.available)} too little: nothing is left for it",
            change="a lower max_num_batched_tokens or max_num_seqs, fewer graphs, or a higher gpu_memory_utilization",
        )
        return
    needed = cache.blocks_of(basis.longest)
    if budget.blocks < needed:  # vllm-project/recipes#12
        yield Verdict(
            name="KV cache",
            verdict="cannot",
            why=f"one sequence of max_model_len = {basis.longest:,} takes {needed} blocks, there are {budget.blocks}",
            change="a lower max_model_len",
        )
        return
    if basis.captures.full and settings.max_num_seqs > budget.blocks:  # #49064
        yield Verdict(
            name="KV cache",
            verdict="cannot",
            why=f"max_num_seqs = {settings.max_num_seqs} is more than the {budget.blocks} blocks: vLLM refuses it",
            change=f"max_num_seqs at most {budget.blocks}",
        )
        return
    tokens = cache.tokens(budget.blocks, basis.longest)
    yield Verdict(
        name="KV cache", verdict="fits", why=f"{_gib(budget.available)}, {budget.blocks:,} blocks, {tokens:,} tokens"
    )
    if settings.prefix_caching and cache.block_size > settings.max_num_batched_tokens:  # #34445
        yield Verdict(
            name="block and step",
            verdict="cannot",
            why=f"a block of {cache.block_size:,} tokens does not fit max_num_batched_tokens = "
            f"{settings.max_num_batched_tokens:,}",
            change=f"max_num_batched_tokens at least {cache.block_size}",
        )


def _load(basis: Basis) -> Iterator[Verdict]:
    """The ladder against what runs at once: more requests in flight than that wait or are preempted."""
    ranks, at_once = basis.recipe.ranks, basis.at_once
    up_to = f"{at_once}" if ranks == 1 else f"{at_once} at each {basis.recipe.rank_name}"
    tokens = basis.recipe.workload.prompt_tokens + basis.recipe.workload.output_tokens
    room = basis.cache.sequences(basis.budget.blocks, tokens)
    if basis.budget.blocks and room < at_once:
        yield Verdict(
            name="sequences",
            verdict="tight",
            why=f"{room:.0f} sequences of {tokens:,} tokens fit, the ladder opens up to {up_to}: if all speak at "
            "once, some are preempted unless they share prefixes",
            change="FP8 KV (kv_cache_dtype), a larger card, or fewer streams",
        )
    if at_once > basis.settings.max_num_seqs:
        yield Verdict(
            name="max_num_seqs",
            verdict="tight",
            why=f"{basis.settings.max_num_seqs} run at once, the ladder opens up to {up_to}: some can have to wait",
            change=f"max_num_seqs = {at_once}",
        )


def _graphs(basis: Basis) -> Iterator[Verdict]:
    captures, settings = basis.captures, basis.settings
    if not captures.graphs:
        return
    step = settings.draft_tokens + 1
    if captures.dropped:  # #28207
        end = captures.dropped[-1] // step * step
        yield Verdict(
            name="capture list",
            verdict="tight",
            why=f"{', '.join(f'{size:,}' for size in captures.dropped)} rounds up past the maximum and is dropped in "
            f"silence: steps of more than {captures.largest:,} tokens run without a graph",
            change=f"cudagraph_capture_sizes ending in {end}, a multiple of k + 1 = {step}",
        )
    widest = settings.max_num_seqs * step
    if captures.full and captures.full[-1] < min(widest, settings.max_num_batched_tokens):  # #50488
        yield Verdict(
            name="decoding graphs",
            verdict="tight",
            why=f"{settings.max_num_seqs} sequences decode {widest:,} tokens a step, the largest graph has "
            f"{captures.full[-1]:,}",
            change=f"a capture size of {widest}, or max_num_seqs = {captures.full[-1] // step}",
        )
    odd = [size for size in captures.sizes if size % step]
    if settings.graph_mode == "PIECEWISE" and odd and settings.release.rounds_captures:  # #46324
        yield Verdict(
            name="graphs in pieces with drafts",
            verdict="tight",
            why=f"sizes such as {odd[0]} are no multiples of k + 1 = {step}, and this mode does not round them: "
            "engines died of an illegal memory access",
            change="cudagraph_mode = FULL_AND_PIECEWISE, or sizes that are multiples",
        )


def _prefix(basis: Basis) -> Iterator[Verdict]:
    prefix, cache, settings = basis.prefix, basis.cache, basis.settings
    shared = basis.recipe.workload.shared_prefix_tokens
    if not settings.prefix_caching:
        return
    if settings.prefix_match_unit and cache.block_size % settings.prefix_match_unit:
        yield Verdict(
            name="prefix match unit",
            verdict="cannot",
            why=f"prefix_match_unit = {settings.prefix_match_unit} does not divide the block of {cache.block_size:,}",
            change=f"prefix_match_unit = {math.gcd(settings.prefix_match_unit, cache.block_size)}, or without",
        )
    if prefix.rate is None:
        return
    # With drafts it is no advice: such hits do not last.
    unit = ", or --prefix-match-unit" if settings.release.prefix_match_unit and not settings.draft_tokens else ""
    if settings.prefix_match_unit:
        yield Verdict(
            name="prefix cache",
            verdict="fits" if prefix.shared_hit >= (1 - _LOST) * shared else "tight",
            why=f"of {shared:,} shared tokens {prefix.shared_hit:,} are reused",
            change="" if prefix.shared_hit >= (1 - _LOST) * shared else "another divisor of the block",
        )
        return
    if not prefix.shared_hit:  # #40696, #48402
        yield Verdict(
            name="prefix cache",
            verdict="tight",
            why=f"inert: a shared prefix of {shared:,} tokens holds no block of {cache.block_size:,} to reuse",
            change=f"a prefix of {prefix.next_length:,} tokens{unit}",
        )
    elif prefix.shared_hit < (1 - _LOST) * shared:
        yield Verdict(
            name="prefix cache",
            verdict="tight",
            why=f"of {shared:,} shared tokens {prefix.shared_hit:,} are reused; {prefix.enough:,} would give the same",
            change=f"a prefix of {prefix.next_length:,} tokens reuses {prefix.next_hit:,}{unit}",
        )
    else:
        yield Verdict(
            name="prefix cache", verdict="fits", why=f"of {shared:,} shared tokens {prefix.shared_hit:,} are reused"
        )


def _states(basis: Basis) -> Iterator[Verdict]:
    """Not what is fast, but what is right: https://github.com/vllm-project/vllm/pull/51113."""
    if not basis.prefix.misnaming:
        return
    unit = basis.settings.prefix_match_unit
    yield Verdict(
        name="recurrent states",
        verdict="tight",
        why=f"{basis.prefix.misnaming:.0%} of the prompts leave one in the prefix cache under the name of a point at "
        "which it is not; one that resumes there goes on wrongly (bench.workload.prefix_cache_rules, 9)",
        change=_NO_UNIT if unit else "no MTP, or a larger max_num_batched_tokens",
    )


def _lasting(basis: Basis) -> Iterator[Verdict]:
    """What a run of minutes measures, a server of days does not give."""
    lasting = lasting_of(basis)
    if lasting is None or lasting.lasts:
        return
    later = ": fewer engines on the card, or FP8 KV (kv_cache_dtype)"
    if basis.settings.prefix_match_unit:
        later += "; just preflight --blocks shows what lasts with other blocks"
    yield Verdict(
        name=LASTING,
        verdict="tight",
        why=f"{percent(lasting.first)} of the prompts' tokens come from the cache at first, and "
        f"{percent(lasting.rate)} once some {lasting.lost_after:,} requests, {lasting.at_once} at once, have been "
        f"through its {lasting.blocks:,} blocks",
        change=f"more memory for the KV cache puts it off{later}",
    )


def _steps(basis: Basis, blocks: Blocks | None) -> Iterator[Verdict]:
    """Fewer steps can have more tokens, and larger blocks more memory: no loss for sure, so the verdict is "fits"."""
    prefix = basis.prefix
    if prefix.rate is None or prefix.steps is None or prefix.steps <= MANY_STEPS:
        return
    best = blocks.front[0] if blocks is not None and blocks.front else None
    other: MeanPrefill | Choice | None = best or prefix.without_unit
    flags = _flags(best, basis) if best else _NO_UNIT
    if other is None or other.steps >= _ONE_STEP:
        return
    both = other.computed <= prefix.computed
    yield Verdict(
        name="prefill steps",
        verdict="fits",
        why=f"{prefix.computed:,.0f} tokens of a prompt in {prefix.steps:.1f} steps; {other.computed:,.0f} in "
        f"{other.steps:.1f} with {flags}"
        + (f" ({best.sequences:,.0f} sequences of the workload fit)" if best else "")
        + ("" if both else f". {_ALIKE}"),
        change=flags if both else "",
    )


def _flags(choice: Choice, basis: Basis) -> str:
    size = f"block_size = {choice.block_size}"
    if choice.match_unit:
        return f"{size}, prefix_match_unit = {choice.match_unit}"
    return f"{size}, {_NO_UNIT}" if basis.settings.prefix_match_unit else size


def _gib(value: int) -> str:
    return f"{value / GIB:.1f} GiB"
