"""Which cache blocks would leave a workload less to compute, or in fewer steps of the scheduler.

What a step with a prompt costs an engine does not only depend on its tokens
(`evidence/h200/attribution-20261130`), so neither figure alone says which blocks are best: of all pairs of block size
and match unit that are tried, those remain that no other beats in both (the Pareto front).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from bench.errors import UsageError
from bench.explain.preflight.kv_cache import kv_cache_of
from bench.explain.preflight.lasting import lasting_of
from bench.explain.preflight.prefix import MeanPrefill, prefills_of, rules_of
from bench.explain.preflight.settings import CPU_BLOCK, GPU_BLOCK
from bench.explain.preflight.sharding import one_gpu
from bench.workload.prefix_cache_rules import CacheRules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from bench.explain.preflight.plan import Basis

_LARGEST: Final = 2
"""Times the smallest block: in larger ones more than half of what a state takes is padding."""
FINEST: Final = 64
"""Match units are a block's half to its 64th: an engine hashes a prompt once a unit, and the finest take the most time
to try."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A pair of block size and match unit, and what it gives.

    Attributes:
        block_size: tokens of a block.
        match_unit: `--prefix-match-unit`; None without.
        computed: mean tokens of a prompt that are computed.
        steps: mean steps of the scheduler that compute them, one request at a time.
        sequences: of the workload that fit the KV cache of one GPU, none sharing a prefix.
        hits: share of prompt tokens that come from the cache, as `computed` has it: while nothing is given up.
        current: it is the recipe's own.
        lasting: the same share in the long run (`bench.explain.preflight.lasting`); None where the load does not fit
            the pool, and for pairs that others beat.
    """

    block_size: int
    match_unit: int | None
    computed: float
    steps: float
    sequences: float
    hits: float
    current: bool = False
    lasting: float | None = None

    def beats(self, other: Choice) -> bool:
        """Whether it is no worse in either figure and better in one; of equals, the smaller block and larger unit."""
        return self.steps <= other.steps and self.computed <= other.computed and self.order < other.order

    @property
    def order(self) -> tuple[float, float, int, int]:
        """Fewest steps first, then fewest tokens, the smaller block, the larger unit."""
        return self.steps, self.computed, self.block_size, -(self.match_unit or self.block_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """What was tried, and what remains.

    Attributes:
        sizes: block sizes that were tried; empty where the smallest is larger than a step of the scheduler.
        smallest: that the engine allows.
        units: match units were tried too; the engine's release has them.
        tried: pairs, the recipe's own included.
        misnaming: of these, pairs that are no choice: some prompts would go on from wrong states (rule 9).
        front: those that none beats, fewest steps first.
        current: the recipe's own; None where no engine serves with it.
    """

    sizes: range
    smallest: int
    units: bool
    tried: int
    misnaming: int
    front: tuple[Choice, ...]
    current: Choice | None

    @property
    def shown(self) -> tuple[Choice, ...]:
        """The front, and the recipe's own at its place among them."""
        others = () if self.current is None or self.current in self.front else (self.current,)
        return tuple(sorted((*self.front, *others), key=lambda choice: choice.order))


def blocks_of(basis: Basis, on_progress: Callable[[int, int], None] = lambda _done, _total: None) -> Blocks:
    """Tries block sizes and match units on a recipe's workload.

    Args:
        basis: of the recipe's plan.
        on_progress: called with pairs tried and pairs in all.

    Raises:
        UsageError: the recipe's engine caches no prefixes.
    """
    settings = basis.settings
    if not settings.prefix_caching:
        raise UsageError(
            f"{basis.recipe.target} caches no prefixes, so its blocks change nothing of what is computed (--blocks).",
            remedy="Leave --blocks out, or plan it with --set engine.flags.enable_prefix_caching=true.",
        )
    step = CPU_BLOCK if settings.cpu else GPU_BLOCK
    shapes = one_gpu(basis.model.shapes, settings)
    smallest = kv_cache_of(shapes, replace(settings, block_alignment=step)).block_size
    sizes = range(smallest, min(_LARGEST * smallest, settings.max_num_batched_tokens) + 1, step)
    units = settings.release.prefix_match_unit
    own = rules_of(basis.recipe, settings, basis.cache)
    pairs = [rules for rules in _rules(basis, sizes, units=units) if rules != own]
    if own is not None:
        pairs.insert(0, own)
    workload = basis.recipe.workload.model_dump_json()
    sound, current = [], None
    for done, rules in enumerate(pairs):
        on_progress(done, len(pairs))
        mean = MeanPrefill.of(prefills_of(workload, rules), rules)
        choice = _choice(basis, rules, mean, current=rules is own)
        if rules is own:
            current = choice
        if not mean.misnaming:
            sound.append(choice)
    return Blocks(
        sizes=sizes,
        smallest=smallest,
        units=units,
        tried=len(pairs),
        misnaming=len(pairs) - len(sound),
        front=tuple(_with_lasting(basis, choice) for choice in front_of(sound)),
        current=None if current is None else _with_lasting(basis, current),
    )


def _with_lasting(basis: Basis, choice: Choice) -> Choice:
    rules = None if choice.current else _rules_of(basis, choice.block_size, choice.match_unit)
    lasting = lasting_of(basis, rules)
    return replace(choice, lasting=lasting.rate if lasting else None)


def pairs_of(sizes: Iterable[int], *, units: bool) -> Iterator[tuple[int, int | None]]:
    """Pairs of block size and match unit to try: each block without a unit, and with units that divide it."""
    for size in sizes:
        yield size, None
        if units:
            yield from ((size, size // parts) for parts in range(2, FINEST + 1) if size % parts == 0)


def front_of(choices: Iterable[Choice]) -> tuple[Choice, ...]:
    """Those that no other beats, fewest steps first."""
    front: list[Choice] = []
    for choice in sorted(choices, key=lambda choice: choice.order):
        if not front or choice.computed < front[-1].computed:
            front.append(choice)
    return tuple(front)


def _rules(basis: Basis, sizes: Iterable[int], *, units: bool) -> Iterator[CacheRules]:
    for size, unit in pairs_of(sizes, units=units):
        yield _rules_of(basis, size, unit)


def _rules_of(basis: Basis, size: int, unit: int | None) -> CacheRules:
    return CacheRules(
        block_size=size,
        hybrid=True,
        chunk_tokens=basis.settings.max_num_batched_tokens,
        draft_tokens=basis.settings.draft_tokens,
        match_unit=unit,
    )


def _choice(basis: Basis, rules: CacheRules, mean: MeanPrefill, *, current: bool) -> Choice:
    cache, workload = replace(basis.cache, block_size=rules.block_size), basis.recipe.workload
    blocks = cache.blocks(basis.budget.available)
    return Choice(
        block_size=rules.block_size,
        match_unit=rules.match_unit if rules.fine else None,
        computed=mean.computed,
        steps=mean.steps,
        sequences=cache.sequences(blocks, workload.prompt_tokens + workload.output_tokens),
        hits=mean.rate,
        current=current,
    )
