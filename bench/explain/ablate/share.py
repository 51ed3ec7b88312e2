"""One card for several engines: how much of its memory each gets.

`gpu_memory_utilization` alone does not divide a card between engines that start together: vLLM 0.26.0 takes whatever
others allocate while it starts for memory of its own (`memory_profiling` in vllm/utils/mem_utils.py), and is left with
too little for its KV cache. The size of the cache is therefore given (`kv_cache_memory_bytes`), which skips that count;
the share is still what must be free when an engine starts.

Alone on a card, what an engine takes beside weights, cache and the peak of a step comes out of what its share leaves of
the card. Here that is another engine's, so it is reserved (`GROWTH`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from bench.errors import StreamproofError, UsageError
from bench.explain.ablate.adapt import Adapted, with_adapted
from bench.explain.preflight.command import plan
from bench.explain.preflight.gpus import GIB

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recipes.schema import Recipe

USABLE: Final = 0.98
"""Of a card, by all engines together."""

GROWTH: Final = 12 * GIB
"""Bytes that an engine takes under load beside what preflight plans: graphs, kernels' workspaces, what its allocator
keeps for itself and does not give back to others. On H200s at 16 requests in flight (evidence/h200/two-cards-20261130,
attribution-20261130), beside weights and cache: 9.6 and 10.6 GiB with MTP; 4.9 and 10.8 without, and 14.1 with steps of
16,384 tokens; 0.7, 0.7 and 2.5 of these were planned."""

_SHARE: Final = "engine.flags.gpu_memory_utilization"
_CACHE: Final = "engine.flags.kv_cache_memory_bytes"
_STEP: Final = 1 << 28
"""Bytes: the size of the cache is a multiple of a quarter of a GiB."""


def shares(
    recipes: Mapping[str, Recipe], *, at_once: int, share: float | None, cache_gib: float | None
) -> tuple[Adapted, ...]:
    """What every configuration gets besides its own flags; nothing on a CPU, whose recipes say their cache's size.

    Args:
        recipes: by the name of the configuration.
        at_once: engines on the card.
        share: of the card for each; None divides `USABLE`.
        cache_gib: KV cache of each; None takes what is left of the smallest configuration's share, by preflight.

    Raises:
        UsageError: the share is none, or a configuration does not fit into it, or nobody knows whether it does.
    """
    if any(recipe.hardware.kind == "cpu" for recipe in recipes.values()):
        if share is not None or cache_gib is not None:
            raise UsageError(
                "--memory-share and --kv-gib divide a card; this target runs on the CPU.",
                remedy="Its KV cache is engine.env.VLLM_CPU_KVCACHE_SPACE.",
            )
        return ()
    share = math.floor(100 * USABLE / at_once) / 100 if share is None else share
    if not 0 < share * at_once <= 1:
        raise UsageError(
            f"--memory-share {share:g}: {at_once} engines at once would take {share * at_once:.0%} of the card.",
            remedy=f"At most {math.floor(100 / at_once) / 100:g}, or fewer engines --at-once.",
        )
    why = f"one of {at_once} engines that stay on the card together"
    given = Adapted(key=_SHARE, value=share, kind="assumption", why=why)
    if cache_gib is None:
        left = {name: _left(name, with_adapted(recipe, [given])) for name, recipe in recipes.items()}
        cache = min(left.values()) // _STEP * _STEP
        smallest = min(left, key=lambda name: left[name])
        if cache <= 0:
            raise UsageError(
                f"{smallest} does not fit into {share:g} of the card: {-left[smallest] / GIB:.1f} GiB are missing, and "
                "then its KV cache.",
                remedy="Fewer engines --at-once, or leave its factor out with --factors. Or give the size of the "
                "caches, and take the risk that one engine's growth is another's death: --kv-gib 6",
            )
        why = f"{why}; the same for all, and what the share leaves {smallest}"
    else:
        cache = round(cache_gib * GIB)
    return (given, Adapted(key=_CACHE, value=cache, kind="assumption", why=why))


def _left(name: str, recipe: Recipe) -> int:
    """Bytes of the share that are left for the KV cache."""
    try:
        return plan(recipe, offline=True).budget.available - GROWTH
    except StreamproofError as error:
        raise UsageError(
            f"nobody can say what {name} leaves for its KV cache: {error.message}", remedy="Give its size: --kv-gib 6"
        ) from error
