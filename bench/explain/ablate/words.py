"""An ablation's figures as people read them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bench.explain.compare.words import change
from bench.report.render import words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.explain.ablate.outcome import Ablation, FactorEffect, FigureEffects, Interval


def effect(interval: Interval | None) -> str:
    """A change with its interval: "-16.7 % (-20.1 % to -13.0 %)"."""
    if interval is None:
        return words.ABSENT
    if interval.low is None:
        return f"{change(interval.ratio)} (one block: chance unknown)"
    return f"{change(interval.ratio)} ({change(interval.low)} to {change(interval.high)})"


def figure_name(figure: FigureEffects) -> str:
    """E.g. "p95 of E2E at 40 streams"."""
    return f"p{figure.quantile * 100:g} of E2E at {figure.point}"


def side_of(factor: FactorEffect) -> Interval | None:
    """The one effect of a factor that was switched in one direction only."""
    return factor.removed_last or factor.added_first


def one_direction(ablation: Ablation) -> str:
    """What that effect is, as the head of a column."""
    if ablation.only == "removed":
        return f"{ablation.target} over {ablation.target} without it"
    return f"{ablation.base} with it over {ablation.base}"


def headline(ablation: Ablation) -> str:
    """The most important thing in one sentence."""
    known = [figure for figure in ablation.figures if not figure.none]
    if not known:
        return "No effects yet: no block is complete."
    of_p95 = [figure for figure in known if figure.quantile == 0.95] or known
    if of_p95[-1].total is None:
        return _largest(ablation, of_p95[-1])
    interacting = sorted({each.factor for figure in known for each in figure.factors if each.interacts})
    first = f"{ablation.base} to {ablation.target}: {figure_name(of_p95[-1])} {effect(of_p95[-1].total)}."
    if interacting:
        verb = "interacts: it has" if len(interacting) == 1 else "interact: they have"
        return f"{first} {', '.join(interacting)} {verb} no share of {'its' if len(interacting) == 1 else 'their'} own."
    return first


def _largest(ablation: Ablation, figure: FigureEffects) -> str:
    """The factor that changes a figure most, where factors were switched in one direction only."""
    sides = [(each.factor, side_of(each)) for each in figure.factors]
    known = [(factor, side) for factor, side in sides if side is not None]
    if not known:
        return "No effects: too little was measured."
    factor, side = max(known, key=lambda pair: abs(math.log(pair[1].ratio)))
    of = f"in {ablation.target}" if ablation.only == "removed" else f"added to {ablation.base}"
    certain = side.low is not None and side.high is not None and not side.low <= 1 <= side.high
    doubt = "" if certain else " It could be chance."
    return f"{figure_name(figure)}: {factor} does most {of}, {effect(side)}.{doubt}"


def remarks(ablation: Ablation) -> tuple[str, ...]:
    """What limits the conclusions, a sentence or two each."""
    return (*_of_starts(ablation), *(f"{name}: {each}." for name, besides in ablation.adapted for each in besides))


def _of_starts(ablation: Ablation) -> Iterator[str]:
    if not ablation.shared:
        return
    yield (
        f"{len(ablation.runs)} measurements on {words.plural(ablation.starts, 'engine start')}: engines were started "
        "together, stayed, and had load one at a time. The intervals are about these starts; how much starts differ is "
        "not in them."
    )
    starts: dict[tuple[int, str], set[str]] = {}
    for run in ablation.runs:
        if run.start is not None:
            starts.setdefault((run.group, run.configuration), set()).add(run.start)
    if again := sorted({name for (_, name), of_it in starts.items() if len(of_it) > 1}):
        yield f"Started again, as the ablation was interrupted or an engine died: {', '.join(again)}."
    if ablation.groups > 1:
        yield f"{ablation.groups} groups, one after the other; each effect is within its group."
