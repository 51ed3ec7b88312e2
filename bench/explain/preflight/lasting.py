"""Which prefix hits last: many calls at once, until the pool of cache blocks has been through.

What a report measures in minutes is the beginning: whatever the priming left is still there. A server runs for days.
Blocks that are used again stay, and all others are given up in the order of their last use, so what is never touched
goes at last, however much of it hits rest on. With MTP and `--prefix-match-unit` they do rest on such blocks
(`bench.workload.prefix_cache_rules`, 8): tails of the priming prompts vouch for hits that end before them, and are not
used by them.

Found where two engines shared a card, and hits were fewer than predicted (evidence/h200/host-floor-20261130).
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from dataclasses import replace
from functools import lru_cache
from itertools import count, cycle, pairwise, tee
from typing import TYPE_CHECKING, Final

from bench.errors import StreamproofError
from bench.explain.preflight.prefix import prefills_of, rules_of, turns_of
from bench.observe.lasting import Lasting
from bench.workload.prefix_cache import PrefixCacheModel
from bench.workload.turn import Segment
from recipes.schema import Workload

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.explain.preflight.plan import Basis
    from bench.workload.prefix_cache_rules import CacheRules

_MOST: Final = 6_000
"""Requests of a simulation; a second's work. At 10 a second the engine takes ten minutes for them."""
_MOST_BLOCKS: Final = 3_000_000
"""That the prompts of a simulation have: of very long prompts in small blocks, fewer are served."""
_WINDOW: Final = 300
"""The last requests, which the lasting rate is taken from."""
_GROWTH: Final = 600
"""Requests in which a pool that fills up at all takes some more of its blocks."""


def lasting_of(basis: Basis, rules: CacheRules | None = None) -> Lasting | None:
    """The lasting hits of a plan.

    Args:
        basis: of the plan.
        rules: other blocks in the same memory; the plan's own by default.

    Returns:
        None where nothing is cached, the pool is too small for all that the ladder opens at once, or that is not known
        (traces).
    """
    rules = rules or rules_of(basis.recipe, basis.settings, basis.cache)
    if rules is None or not basis.settings.prefix_caching or not basis.at_once:
        return None
    own = rules.block_size == basis.cache.block_size
    cache = replace(basis.cache, block_size=rules.block_size)
    blocks = basis.budget.blocks if own else cache.blocks(basis.budget.available)
    if blocks <= basis.at_once:  # each request holds one at least
        return None
    pool = replace(rules, num_gpu_blocks=blocks, state_groups=cache.gdn_groups)
    return _lasting(basis.recipe.workload.model_dump_json(), pool, basis.at_once)


@lru_cache(maxsize=64)
def _lasting(workload: str, rules: CacheRules, at_once: int) -> Lasting | None:
    """Plans that differ in nothing else share it."""
    spec = Workload.model_validate_json(workload)
    most = min(_MOST, _MOST_BLOCKS // (spec.prompt_tokens // rules.block_size + 1) + 1)
    alone = [prefill.hit for prefill in prefills_of(workload, replace(rules, num_gpu_blocks=None))]
    engine = PrefixCacheModel(rules)
    which, sent = tee(prompts_at_once(workload, at_once))
    prefills = engine.serve_at_once(((segments, spec.output_tokens) for _, segments in sent), at_once)
    last: deque[tuple[int, int, int]] = deque(maxlen=_WINDOW)
    number = used = 0
    lost_after: int | None = None
    try:
        for turn in turns_of(workload)[0]:
            engine.serve(turn.segments, 1)
        for number, (prefill, (index, _)) in enumerate(zip(prefills, which, strict=True), start=1):
            last.append((alone[index], prefill.hit, prefill.ends[-1]))
            if lost_after is None and prefill.hit < alone[index]:
                lost_after = number
            if number == most:
                break
            if number % _GROWTH == 0:
                full, grew, used = engine.used == rules.usable_blocks, engine.used > used, engine.used
                if engine.evicted >= used if full else not grew:
                    break
    except StreamproofError:
        return None
    first, hits, tokens = map(sum, zip(*last, strict=True))
    return Lasting(
        at_once=at_once,
        blocks=rules.num_gpu_blocks or 0,
        requests=number,
        first=first / tokens,
        rate=hits / tokens,
        lost_after=lost_after,
        full=engine.used == rules.usable_blocks,
    )


def prompts_at_once(workload: str, at_once: int) -> Iterator[tuple[int, tuple[Segment, ...]]]:
    """Prompts without end, as so many streams send them in turn: which of the workload's few it is, and its text.

    Each stream has one call after the other. A call is one of the workload's few with new words wherever these are its
    own: texts that others share, such as an agent's prompt, stay the same.
    """
    primes, turns = turns_of(workload)
    begins = [index for index, turn in enumerate(turns) if turn.turn == 0]
    calls = [range(*ends) for ends in pairwise([*begins, len(turns)])]
    users = Counter(key for call in calls for key in {part.key for index in call for part in turns[index].segments})
    shared = {part.key for turn in primes for part in turn.segments} | {key for key, n in users.items() if n > 1}
    new_keys, kinds = count(max(shared | users.keys()) + 1), cycle(calls)

    def stream() -> Iterator[tuple[int, tuple[Segment, ...]]]:
        for call in kinds:  # the same for all streams: each takes the next one
            own = defaultdict[int, int](lambda: next(new_keys))
            for index in call:
                yield (
                    index,
                    tuple(
                        part if part.key in shared else Segment(own[part.key], part.tokens)
                        for part in turns[index].segments
                    ),
                )

    streams = [stream() for _ in range(at_once)]
    while True:
        for each in streams:
            yield next(each)
