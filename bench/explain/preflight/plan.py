"""A whole plan: from a recipe and a model to lines with their formulas, and verdicts with the flag to change."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from bench.explain.preflight.budget import Budget, budget_of
from bench.explain.preflight.captures import Captures, captures_of
from bench.explain.preflight.floors import Machine, Request, machine_of
from bench.explain.preflight.kv_cache import KvCache, kv_cache_of
from bench.explain.preflight.prefix import PrefixPlan, prefix_plan
from bench.explain.preflight.settings import Settings, settings_of
from bench.explain.preflight.sharding import one_gpu

if TYPE_CHECKING:
    from bench.explain.preflight.gpus import Card
    from bench.explain.preflight.locate import Model
    from recipes.schema import Recipe

Unit: TypeAlias = Literal[
    "bytes", "tokens", "blocks", "sequences", "graphs", "layers", "seconds", "share", "GPUs", "steps"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One figure of a plan.

    Attributes:
        key: stable name, for scripts: "kv.block_size".
        label: for people.
        value: the figure; None where it cannot be known.
        unit: of it.
        how: the formula, in words and figures.
        source: where the formula or the figure is from.
        measured: the same in a past start; None where there is none.
        rounding: half a unit of the last digit that the engine printed.
        floor: a lower bound: what is measured lies above it, and is no error of the plan.
    """

    key: str
    label: str
    value: float | None
    unit: Unit
    how: str
    source: str
    measured: float | None = None
    rounding: float = 0.0
    floor: bool = False

    @property
    def error(self) -> float | None:
        """Planned over measured, minus 1; 0 where they agree as far as the engine's rounding tells."""
        if self.measured is None or self.value is None or self.measured == 0 or self.floor:
            return None
        if abs(self.value - self.measured) <= self.rounding:
            return 0.0
        return self.value / self.measured - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What becomes of one requirement.

    Attributes:
        name: of the requirement.
        verdict: "fits", "tight" (it starts, and something small ends that, or something is lost) or "cannot".
        why: with figures.
        change: the flag to change and to what; empty where nothing is to be done.
    """

    name: str
    verdict: Literal["fits", "tight", "cannot"]
    why: str
    change: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """Everything that lines and verdicts are made from.

    Attributes:
        recipe, model, card, settings: what was planned; `card` is None for the CPU.
        captures, cache, budget, prefix: the parts of the plan, of one GPU and of one data-parallel rank.
        machine: for floors; None for the CPU.
        request: the mean request.
        longest: the longest context that the engine allows.
    """

    recipe: Recipe
    model: Model
    card: Card | None
    settings: Settings
    captures: Captures
    cache: KvCache
    budget: Budget
    prefix: PrefixPlan
    machine: Machine | None
    request: Request
    longest: int

    @property
    def at_once(self) -> int:
        """Requests that the ladder opens at most at one rank: all of its streams, or a rate's callers, speak at once.

        0 where it has traces alone.
        """
        load = self.recipe.load
        most = max(
            point.streams or point.concurrent or math.ceil((point.rate or 0) * load.turn_gap.mean_s)
            for point in load.ladder
        )
        return math.ceil(most / self.recipe.ranks)


def basis_of(recipe: Recipe, model: Model, card: Card | None) -> Basis:
    """Computes every part of a plan.

    Args:
        recipe: resolved.
        model: what it serves.
        card: that it runs on; None for the CPU.

    Raises:
        UsageError: the engine would refuse the recipe's flags, or no plan can be made for them.
    """
    settings = settings_of(recipe)
    shapes = one_gpu(model.shapes, settings)
    captures, cache = captures_of(settings), kv_cache_of(shapes, settings)
    budget = budget_of(shapes, settings, captures, cache, card)
    prefix = prefix_plan(recipe, settings, cache)
    return Basis(
        recipe=recipe,
        model=model,
        card=card,
        settings=settings,
        captures=captures,
        cache=cache,
        budget=budget,
        prefix=prefix,
        machine=machine_of(shapes, budget.parts, cache, card, settings.draft_tokens) if card else None,
        request=Request(
            prompt=prefix.prompts,
            computed=prefix.computed,
            reply=recipe.workload.output_tokens,
            acceptance=settings.acceptance,
        ),
        longest=settings.max_model_len or shapes.positions,
    )
