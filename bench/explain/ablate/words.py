"""An ablation's figures as people read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.explain.compare.words import change
from bench.report.render import words

if TYPE_CHECKING:
    from bench.explain.ablate.outcome import Ablation, FigureEffects, Interval


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


def headline(ablation: Ablation) -> str:
    """The most important thing in one sentence."""
    known = [figure for figure in ablation.figures if not figure.none]
    if not known:
        return "No effects yet: no block is complete."
    interacting = sorted({each.factor for figure in known for each in figure.factors if each.interacts})
    total = next((figure for figure in reversed(known) if figure.quantile == 0.95), known[-1])
    first = f"{ablation.base} to {ablation.target}: {figure_name(total)} {effect(total.total)}."
    if interacting:
        verb = "interacts: it has" if len(interacting) == 1 else "interact: they have"
        return f"{first} {', '.join(interacting)} {verb} no share of {'its' if len(interacting) == 1 else 'their'} own."
    return first
