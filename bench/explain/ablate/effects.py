"""Effects of factors from the figures of all configurations, and whether a single share may stand for one.

A factor is measured at two places: added first to the base, and last to everything else (which is its removal from the
full recipe). Where both effects agree, their mean is its share: with one or two factors that is Shapley's value
(Shapley 1953, "A value for n-person games"); with more, the places between are taken to lie between. Where both
differ by more than chance, the factor's effect depends on the others, and a share would be a lie.

All effects and shares of one figure hold together at `CONFIDENCE` (Bonferroni): with ten of them, one would otherwise
be wrong in every second or third ablation. Whether a factor interacts is judged at `CONFIDENCE` by itself: to withhold
a share for nothing does less harm than to give a wrong one.

Configurations that were measured in different groups are never compared: each effect is within the group of its two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from bench.explain.ablate.outcome import FactorEffect, FigureEffects, Interval
from bench.explain.compare.words import change
from bench.stats.blocked import Blocked, Contrast

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bench.explain.ablate.plan import AblationPlan

CONFIDENCE: Final = 0.95

Step: TypeAlias = tuple[str, str]
"""(before, after): two configurations."""


@dataclass(frozen=True, slots=True)
class _Group:
    """One randomized block experiment.

    Attributes:
        rows: of each configuration in `blocked`.
        blocked: logarithms of the figures.
    """

    rows: Mapping[str, int]
    blocked: Blocked

    @classmethod
    def of(cls, seconds: Mapping[str, Sequence[float]]) -> _Group:
        figures = np.array(list(seconds.values()), dtype=np.float64)
        return cls({name: row for row, name in enumerate(seconds)}, Blocked(np.log(figures)))

    def has(self, *steps: Step) -> bool:
        """Whether all of these configurations are in it."""
        return all(name in self.rows for step in steps for name in step)

    def effect(self, steps: Iterable[tuple[Step, float]], confidence: float) -> Contrast:
        """The sum of effects times weights."""
        weights: dict[int, float] = {}
        for (before, after), weight in steps:
            weights[self.rows[after]] = weights.get(self.rows[after], 0.0) + weight
            weights[self.rows[before]] = weights.get(self.rows[before], 0.0) - weight
        return self.blocked.contrast(weights, confidence)


def figure_effects(
    plan: AblationPlan, point: str, quantile: float, *seconds: Mapping[str, Sequence[float]]
) -> FigureEffects:
    """All effects on one figure.

    Args:
        plan: of the ablation.
        point: label.
        quantile: of E2E.
        seconds: for each group, by configuration, a figure for each block that counts, in the same order; +infinity
            where the percentile falls among the failures, NaN where there are too few requests. A configuration that
            is left out is not in it.
    """
    figures = [figure for group in seconds for row in group.values() for figure in row]
    if not figures or not all(math.isfinite(figure) and figure > 0 for figure in figures):
        why = "a run has too few requests, or too many failures, for it" if figures else "no complete block"
        return FigureEffects(
            point=point, quantile=quantile, seconds={}, total=None, factors=(), confidence=CONFIDENCE, none=why
        )
    groups = [_Group.of(group) for group in seconds if any(group.values())]
    together = 1 - (1 - CONFIDENCE) / _intervals(plan)

    def effect(*steps: tuple[Step | None, float], confidence: float = together) -> Contrast | None:
        known = [(step, weight) for step, weight in steps if step is not None]
        group = next((group for group in groups if group.has(*(step for step, _ in known))), None)
        return group.effect(known, confidence) if len(known) == len(steps) and group is not None else None

    factors = []
    for factor in plan.factors:
        added, removed = plan.added(factor.slug), plan.removed(factor.slug)
        sides = _Sides(
            added=effect((added, 1.0)),
            removed=effect((removed, 1.0)),
            interaction=effect((added, 1.0), (removed, -1.0), confidence=CONFIDENCE),
            mean=effect((added, 0.5), (removed, 0.5)),
        )
        factors.append(_factor(factor.slug, sides, plan))
    return FigureEffects(
        point=point,
        quantile=quantile,
        seconds=_medians(plan, seconds),
        total=_interval(effect((plan.total, 1.0))),
        factors=tuple(factors),
        confidence=CONFIDENCE,
        none="",
    )


def _intervals(plan: AblationPlan) -> int:
    """How many have to hold together."""
    if plan.only is not None:
        return len(plan.factors)
    # Per factor two effects and the share; and the total. Of a single factor these are all the same.
    return 3 * len(plan.factors) + 1 if len(plan.factors) > 1 else 1


def _medians(plan: AblationPlan, seconds: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, float]:
    """Over the blocks of all groups."""
    names = [each.name for each in plan.configurations]
    found = {name: [figure for group in seconds for figure in group.get(name, ())] for name in names}
    return {name: float(np.median(figures)) for name, figures in found.items() if figures}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sides:
    """What is known of one factor; None for what was not measured."""

    added: Contrast | None
    removed: Contrast | None
    interaction: Contrast | None
    mean: Contrast | None


def _factor(slug: str, sides: _Sides, plan: AblationPlan) -> FactorEffect:
    interacts, share, says = _judged(sides, plan)
    return FactorEffect(
        factor=slug,
        added_first=_interval(sides.added),
        removed_last=_interval(sides.removed),
        interaction=_interval(sides.interaction),
        interacts=interacts,
        share=share,
        says=says,
    )


def _judged(sides: _Sides, plan: AblationPlan) -> tuple[bool | None, Interval | None, str]:
    """(whether it interacts, its share, in words)."""
    if sides.added is None or sides.removed is None or sides.interaction is None:
        known = sides.added is not None or sides.removed is not None
        return None, None, _ONE_SIDE[plan.only] if known else "left out: nothing is known of it"
    if len(plan.factors) == 1:
        return False, _interval(sides.mean), "the only factor: its effect is the whole"
    if sides.interaction.low is None or sides.interaction.high is None:
        return None, None, "one block only: nothing tells an effect from chance, and no share is given"
    if sides.interaction.low > 0 or sides.interaction.high < 0:
        first, last = change(math.exp(sides.added.value)), change(math.exp(sides.removed.value))
        return (
            True,
            None,
            f"interacts: {first} when added first, {last} when added last; no single share is its own",
        )
    between = f"{change(math.exp(sides.interaction.low))} to {change(math.exp(sides.interaction.high))}"
    why = f"added first and removed last differ by no more than chance ({between}): their mean"
    return False, _interval(sides.mean), why


_ONE_SIDE: Final = {
    "added": "added to the base by itself; what it brings beside the others was not measured",
    "removed": "what the full recipe loses without it; what it brings by itself was not measured",
    None: "one side of it was not measured: no share is given",
}


def _interval(contrast: Contrast | None) -> Interval | None:
    if contrast is None:
        return None
    low, high = (None if end is None else math.exp(end) for end in (contrast.low, contrast.high))
    return Interval(ratio=math.exp(contrast.value), low=low, high=high)
