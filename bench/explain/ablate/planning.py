"""From two recipes and the options of `just ablate` to a plan whose configurations can all be served."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, get_args

from bench.errors import StreamproofError, UsageError
from bench.explain.ablate.adapt import adaptations
from bench.explain.ablate.factors import as_one, choose, derive
from bench.explain.ablate.plan import Only, make_plan
from bench.explain.ablate.share import shares
from bench.explain.preflight.command import plan as preflight_plan
from bench.explain.preflight.verdicts import LASTING, verdicts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.explain.ablate.adapt import Adapted
    from bench.explain.ablate.plan import AblationPlan
    from recipes.schema import Recipe


@dataclass(frozen=True, kw_only=True)
class Residency:
    """Engines are started together, once, and stay.

    Attributes:
        at_once: no more than this many.
        memory_share: of the card for each; None divides it.
        cache_gib: KV cache of each; None takes what its share leaves.
    """

    at_once: int
    memory_share: float | None = None
    cache_gib: float | None = None


def residency(*, resident: bool, at_once: int, memory_share: float | None, cache_gib: float | None) -> Residency | None:
    """What the options say.

    Raises:
        UsageError: a card is divided between engines that do not run beside each other.
    """
    if resident:
        return Residency(at_once=at_once, memory_share=memory_share, cache_gib=cache_gib)
    if memory_share is not None or cache_gib is not None:
        raise UsageError(
            "--memory-share and --kv-gib divide a card between engines that stay.", remedy="Add --resident."
        )
    return None


def plan_of(  # noqa: PLR0913  the options of a command
    base: Recipe,
    target: Recipe,
    *,
    wanted: Sequence[str],
    together: bool = False,
    blocks: int,
    seed: int,
    engine: str | None = None,
    only: str | None = None,
    residency: Residency | None = None,
) -> AblationPlan:
    """The plan between two recipes.

    Args:
        base: recipe to start from.
        target: recipe to get to.
        wanted: slugs of factors; none for all.
        together: switch them as one factor: recipe against recipe.
        blocks: how often each configuration is measured.
        seed: decides the order.
        engine: who starts them.
        only: the one direction in which factors are switched.
        residency: of engines that stay; None for a start each time.

    Raises:
        UsageError: they differ in hardware or in nothing, a factor, engine or direction is unknown, a configuration is
            no recipe, or does not fit beside the others; or replicas shall stay.
    """
    if residency is not None and max(base.replicas, target.replicas) > 1:
        raise UsageError(
            "--resident keeps one engine for each configuration, and engine.replicas asks for several.",
            remedy="Leave --resident out; or ablate a recipe of one replica, whose card serves the same way.",
        )
    if engine not in {None, "docker", "process"}:
        raise UsageError(f"--engine {engine}: there is no such engine.", remedy="It is docker or process.")
    if only not in {None, *get_args(Only)}:
        raise UsageError(f"--only {only}: there is no such direction.", remedy=f"It is {' or '.join(get_args(Only))}.")
    known = derive(base, target)
    factors = choose(known, wanted)
    plan = make_plan(
        base,
        target,
        as_one(factors) if together else factors,
        blocks=blocks,
        seed=seed,
        rest=tuple(factor for factor in known if factor not in factors) if only == "removed" else (),
        only=only,  # type: ignore[arg-type]  # as just checked
        at_once=residency.at_once if residency else None,
    )
    plan = _adapted(plan.model_copy(update={"engine": engine}), adaptations)
    if residency is not None:
        recipes = {each.name: plan.recipe(each.name) for each in plan.configurations}
        given = shares(
            recipes,
            at_once=max(map(len, plan.groups.values())),
            share=residency.memory_share,
            cache_gib=residency.cache_gib,
        )
        plan = _adapted(plan, lambda _: given)
    for each in plan.configurations:
        plan.recipe(each.name)  # what is no recipe is said now, and not after an hour
    return plan


def _adapted(plan: AblationPlan, adapt: Callable[[Recipe], tuple[Adapted, ...]]) -> AblationPlan:
    """The plan whose configurations have further values."""
    configurations = tuple(
        each.model_copy(update={"adapted": (*each.adapted, *adapt(plan.recipe(each.name)))})
        for each in plan.configurations
    )
    return plan.model_copy(update={"configurations": configurations})


def objections(plan: AblationPlan) -> list[str]:
    """Why engines would not start, or would not hold the load, a line for each reason: `just preflight` of each.

    They stop nothing: the engine itself decides, and a recipe that no plan can be made for has none.
    """
    found: dict[str, list[str]] = {}
    for each in plan.configurations:
        try:
            verdicts = verdicts_of(preflight_plan(plan.recipe(each.name), offline=True))
        except StreamproofError:
            continue
        for one in verdicts:
            if one.verdict == "cannot" or (one.name, one.verdict) in _TOO_SMALL:
                found.setdefault(f"{one.name}: {one.why}; change: {one.change}", []).append(each.name)
    return [f"preflight of {', '.join(names)}: {why}" for why, names in found.items()]


_TOO_SMALL: Final = (("sequences", "tight"), (LASTING, "tight"))
"""A cache that does not hold the load changes what is measured: requests are preempted, and prefixes lost."""
