"""Effects of factors from the figures of all configurations, and whether a single share may stand for one.

A factor is measured at two places: added first to the base, and last to everything else (which is its removal from the
full recipe). Where both effects agree, their mean is its share: with one or two factors that is Shapley's value
(Shapley 1953, "A value for n-person games"); with more, the places between are taken to lie between. Where both
differ by more than chance, the factor's effect depends on the others, and a share would be a lie.

All effects and shares of one figure hold together at `CONFIDENCE` (Bonferroni): with ten of them, one would otherwise
be wrong in every second or third ablation. Whether a factor interacts is judged at `CONFIDENCE` by itself: to withhold
a share for nothing does less harm than to give a wrong one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from bench.explain.ablate.outcome import FactorEffect, FigureEffects, Interval
from bench.explain.ablate.plan import BASE, FULL
from bench.explain.compare.words import change
from bench.stats.blocked import Blocked, Contrast

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.explain.ablate.plan import AblationPlan

CONFIDENCE: Final = 0.95


def figure_effects(
    plan: AblationPlan, point: str, quantile: float, seconds: Mapping[str, Sequence[float]]
) -> FigureEffects:
    """All effects on one figure.

    Args:
        plan: of the ablation.
        point: label.
        quantile: of E2E.
        seconds: by configuration, a figure for each block that counts, in the same order; +infinity where the
            percentile falls among the failures, NaN where there are too few requests.
    """
    names = [each.name for each in plan.configurations]
    figures = np.array([seconds[name] for name in names], dtype=np.float64)
    if not figures.size or not (np.isfinite(figures).all() and (figures > 0).all()):
        why = "no complete block" if not figures.size else "a run has too few requests, or too many failures, for it"
        return _without(point, quantile, why)
    blocked = Blocked(np.log(figures))
    # Per factor two effects and the share; and the total. Of a single factor these are all the same.
    intervals = 3 * len(plan.factors) + 1 if len(plan.factors) > 1 else 1
    together = 1 - (1 - CONFIDENCE) / intervals
    row = {name: index for index, name in enumerate(names)}

    def effect(*steps: tuple[tuple[str, str], float], confidence: float = together) -> Contrast:
        weights: dict[int, float] = {}
        for (before, after), weight in steps:
            weights[row[after]] = weights.get(row[after], 0.0) + weight
            weights[row[before]] = weights.get(row[before], 0.0) - weight
        return blocked.contrast(weights, confidence)

    factors = []
    for factor in plan.factors:
        added, removed = plan.added(factor.slug), plan.removed(factor.slug)
        interaction = effect((added, 1.0), (removed, -1.0), confidence=CONFIDENCE)
        factors.append(
            _factor(
                factor.slug,
                effect((added, 1.0)),
                effect((removed, 1.0)),
                interaction,
                effect((added, 0.5), (removed, 0.5)),
                alone=len(plan.factors) == 1,
            )
        )
    return FigureEffects(
        point=point,
        quantile=quantile,
        seconds={name: float(np.median(figures[row[name]])) for name in names},
        total=_interval(effect(((BASE, FULL), 1.0))),
        factors=tuple(factors),
        confidence=CONFIDENCE,
        none="",
    )


def _factor(  # noqa: PLR0913  the four sides of one factor
    slug: str, added: Contrast, removed: Contrast, interaction: Contrast, mean: Contrast, *, alone: bool
) -> FactorEffect:
    between = _interval(interaction)
    interacts = None
    share = None
    if alone:
        interacts, share, says = False, _interval(mean), "the only factor: its effect is the whole"
    elif interaction.low is None or interaction.high is None:
        says = "one block only: nothing tells an effect from chance, and no share is given"
    elif interaction.low > 0 or interaction.high < 0:
        interacts = True
        says = (
            f"interacts: {change(_ratio(added))} when added first, {change(_ratio(removed))} when added last; "
            "no single share is its own"
        )
    else:
        interacts, share = False, _interval(mean)
        says = f"added first and removed last differ by no more than chance ({_words(between)}): their mean"
    return FactorEffect(
        factor=slug,
        added_first=_interval(added),
        removed_last=_interval(removed),
        interaction=between,
        interacts=interacts,
        share=share,
        says=says,
    )


def _without(point: str, quantile: float, why: str) -> FigureEffects:
    return FigureEffects(
        point=point, quantile=quantile, seconds={}, total=None, factors=(), confidence=CONFIDENCE, none=why
    )


def _ratio(contrast: Contrast) -> float:
    return math.exp(contrast.value)


def _interval(contrast: Contrast) -> Interval:
    low, high = (None if end is None else math.exp(end) for end in (contrast.low, contrast.high))
    return Interval(ratio=_ratio(contrast), low=low, high=high)


def _words(interval: Interval) -> str:
    return f"{change(interval.low)} to {change(interval.high)}"
