"""What is left to compute of a workload's prompts, in how many steps, and which prefix lengths would leave less.

All of it is said by the model which every report's prediction comes from (`bench.workload.prefix_cache`), for calls
one after another on an engine whose prefixes are primed. Lengths of all texts are the recipe's own, so any tokenizer
gives the same prompts as far as a cache can see them; the bundled one is used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Final

from bench.report.prefix import CPU_SPLIT_TOKENS
from bench.workload.prefix_cache import Prefill, predict_prefills
from bench.workload.prefix_cache_rules import CacheRules
from bench.workload.tokens import CheckpointTokenizer
from bench.workload.voice import VoiceWorkload
from quantize.checkpoint import TOY
from recipes.schema import Workload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.explain.preflight.kv_cache import KvCache
    from bench.explain.preflight.settings import Settings
    from bench.workload.turn import Turn
    from recipes.schema import Recipe

_CALLS: Final = 12
"""Calls that the rate is taken from: some seventy prompts, for which it moves by less than one per cent."""
MANY_STEPS: Final = 1.5
"""Prefill steps of a prompt, on average, that are worth a word: one may do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanPrefill:
    """What computing a prompt takes, on average, on an engine that does nothing else meanwhile.

    Attributes:
        rate: share of prompt tokens that are hits.
        computed: tokens that are no hits.
        steps: steps of the scheduler that compute them.
        misnaming: share of prompts that leave a recurrent state under the name of a point at which it is not, from
            which later prompts go on wrongly (`bench.workload.prefix_cache_rules`, 9).
    """

    rate: float
    computed: float
    steps: float
    misnaming: float

    @classmethod
    def of(cls, prefills: Sequence[Prefill], rules: CacheRules) -> MeanPrefill:
        """The mean of one prefill at least, by an engine of these rules."""
        count = len(prefills)
        return cls(
            rate=sum(prefill.hit for prefill in prefills) / sum(prefill.ends[-1] for prefill in prefills),
            misnaming=sum(rules.hybrid and prefill.misnames(rules.block_size) for prefill in prefills) / count,
            computed=sum(prefill.computed for prefill in prefills) / count,
            steps=sum(prefill.steps for prefill in prefills) / count,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixPlan:
    """What the prefix cache will do.

    Attributes:
        rate: of prompt tokens that come from the cache, primed, without the priming prompts; None where the rules are
            not known (`--prefix-match-unit`).
        computed: mean tokens of a prompt that are computed; the whole prompt where the rate is None.
        steps: mean steps of the scheduler that compute these, one request at a time; None where the rate is.
        prompts: mean tokens of a prompt.
        shared_hit: tokens of the shared prefix that a new call can reuse.
        enough: the shortest prefix that gives the same reuse; 0 with `--prefix-match-unit`, where that depends on how
            the prompts before it ended.
        next_length, next_hit: the shortest longer prefix that gives more, and what it gives; 0 as above.
        misnaming: share of prompts that leave a state from which later ones go on wrongly.
        without_unit: the same blocks without `--prefix-match-unit`; None where hits are whole blocks anyway.
    """

    rate: float | None
    computed: float
    steps: float | None
    prompts: float
    shared_hit: int
    enough: int
    next_length: int
    next_hit: int
    misnaming: float = 0.0
    without_unit: MeanPrefill | None = None


def prefix_plan(recipe: Recipe, settings: Settings, cache: KvCache) -> PrefixPlan:
    """The plan for a recipe's workload."""
    workload = recipe.workload.model_dump_json()
    _, calls = turns_of(workload)
    prompts = sum(turn.prompt_tokens for turn in calls) / len(calls)
    rules = rules_of(recipe, settings, cache)
    if rules is None or not settings.prefix_caching:
        caching = settings.prefix_caching
        chunks = sum(math.ceil(turn.prompt_tokens / settings.max_num_batched_tokens) for turn in calls)
        return PrefixPlan(
            rate=None if caching else 0.0,
            computed=prompts,
            steps=None if caching else chunks / len(calls),
            prompts=prompts,
            shared_hit=0,
            enough=0,
            next_length=0,
            next_hit=0,
        )
    prefills = prefills_of(workload, rules)
    mean = MeanPrefill.of(prefills, rules)
    if rules.fine:
        first = [prefill.hit for turn, prefill in zip(calls, prefills, strict=True) if turn.turn == 0]
        return PrefixPlan(
            rate=mean.rate,
            computed=mean.computed,
            steps=mean.steps,
            prompts=prompts,
            shared_hit=min(first),
            enough=0,
            next_length=0,
            next_hit=0,
            misnaming=mean.misnaming,
            without_unit=MeanPrefill.of(prefills_of(workload, whole := replace(rules, match_unit=None)), whole),
        )
    shared = recipe.workload.shared_prefix_tokens
    hit = reusable(shared, rules)
    blocks = hit // rules.block_size + (1 if rules.draft_tokens else 0)
    return PrefixPlan(
        rate=mean.rate,
        computed=mean.computed,
        steps=mean.steps,
        prompts=prompts,
        shared_hit=hit,
        enough=blocks * rules.block_size if hit else 0,
        next_length=(blocks + 1) * rules.block_size if hit else (2 if rules.draft_tokens else 1) * rules.block_size,
        next_hit=hit + rules.block_size,
        misnaming=mean.misnaming,
    )


def prefills_of(workload: str, rules: CacheRules) -> Sequence[Prefill]:
    """How the prompts of a workload's calls are computed, one request after another on a primed engine."""
    primes, calls = turns_of(workload)
    # A plan evicts nothing. Then neither replies nor the number of state groups change a hit: the least is the fastest.
    served = ((turn.segments, 1) for turn in (*primes, *calls))
    return predict_prefills(served, replace(rules, state_groups=1))[len(primes) :]


@cache
def turns_of(workload: str) -> tuple[tuple[Turn, ...], tuple[Turn, ...]]:
    """Priming requests, and those of `_CALLS` calls in turn. Plans of one workload with other flags share them."""
    source = VoiceWorkload(
        Workload.model_validate_json(workload),
        tokenizer=CheckpointTokenizer.from_folder(TOY),
        model="preflight",
        seed=("preflight",),
    )
    return tuple(source.primes()), tuple(t for number in range(_CALLS) for t in source.call(number, 0).turns)


def rules_of(recipe: Recipe, settings: Settings, cache: KvCache) -> CacheRules | None:
    """The rules of the engine's prefix cache; None for settings that no engine serves with."""
    unit = settings.prefix_match_unit
    if settings.max_num_batched_tokens < cache.block_size or (unit and cache.block_size % unit):
        return None
    return CacheRules(
        block_size=cache.block_size,
        hybrid=True,
        chunk_tokens=settings.max_num_batched_tokens,
        draft_tokens=settings.draft_tokens,
        split_tokens=CPU_SPLIT_TOKENS if settings.cpu and "block_size" not in recipe.engine.flags else None,
        match_unit=unit,
    )


def reusable(shared: int, rules: CacheRules) -> int:
    """Tokens of a shared prefix that a prompt reuses which goes on differently: whole blocks, one less with drafts."""
    return rules.lookup_blocks(shared, shared + rules.block_size) * rules.block_size
