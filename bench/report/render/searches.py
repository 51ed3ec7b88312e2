"""What a run searched for, for the page: the curve, the certificates, the cliffs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.explain.search.show import cliff_line, measure_of
from bench.report.render import words
from bench.report.render.charts import Axis, Plot, seconds_axis
from bench.report.render.tables import Cell, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from markupsafe import Markup

    from bench.explain.search.outcome import Measured, SearchOutcome
    from bench.report.model import Report

HEIGHT_PX: Final = 280
TICKS: Final = 0.11
"""Least distance between two labels, as a share of the width."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchView:
    """What the page says of one search.

    Attributes:
        title: what was asked.
        says: the answer.
        tone: class of the style sheet.
        figure: the curve; None where no percentile is known.
        caption: under it.
        table: the same points as figures.
        proofs: (setting, verdict, replicates, requests, broke the limit, design effect, certifies up to, refutes from,
            confidence).
        cliffs: each a sentence.
        notes: what else must be said.
    """

    title: str
    says: str
    tone: str
    figure: Markup | None
    caption: str
    table: Table
    proofs: tuple[tuple[str, ...], ...]
    cliffs: tuple[str, ...]
    notes: tuple[str, ...]


def search_views(report: Report) -> tuple[SearchView, ...]:
    """One for each question."""
    return tuple(_view(outcome) for outcome in report.searches)


def _view(outcome: SearchOutcome) -> SearchView:
    question = outcome.question
    about = "" if question.claim is None else f"{question.claim.id}: "
    at = "" if question.axis == "streams" else f" at {question.base.label}"
    return SearchView(
        title=f"{about}{question.slo.says}{at}",
        says=words.sentence(outcome.says),
        tone="good" if outcome.found else "bad",
        figure=_figure(outcome),
        caption=_caption(outcome),
        table=_table(outcome),
        proofs=tuple(
            (
                proof.setting if question.axis == "streams" else f"gap {proof.value:g} s",
                proof.settled or "not settled",
                words.count(proof.replicates),
                words.count(proof.n),
                words.count(proof.bad),
                words.number(proof.design_effect),
                words.count(proof.allowed),
                words.count(proof.refuting),
                f"{proof.confidence * 100:.2f} %",
            )
            for proof in outcome.proofs
        ),
        cliffs=tuple(words.sentence(cliff_line(cliff)) for cliff in outcome.cliffs),
        notes=tuple(_notes(outcome)),
    )


def _caption(outcome: SearchOutcome) -> str:
    text = "Dots are all points of a setting together, with their 95 % intervals; the line is the isotonic fit, which "
    text += (
        "assumes only that a heavier load is never faster. What is shaded is certified to hold or not to, as it says. "
    )
    text += "What lies beyond three times the limit is drawn at the upper edge."
    if outcome.crossing is not None:
        unit = " streams" if outcome.question.axis == "streams" else " s"
        text += f" The fit crosses the limit near {outcome.crossing:.3g}{unit}; that is an estimate and no certificate."
    return text


def _notes(outcome: SearchOutcome) -> Iterator[str]:
    if outcome.reasons:
        yield f"Not comparable with the claim: {'; '.join(outcome.reasons)}."
    yield (
        f"All certificates together are right with {outcome.confidence * 100:g} %. They are about this one engine "
        "start: how much starts differ is not in them. Late requests that come in bursts count as fewer independent "
        "ones (design effect)."
    )


def _figure(outcome: SearchOutcome) -> Markup | None:
    known = sorted((each for each in outcome.measured if each.latency_s is not None), key=lambda each: each.value)
    if not known:
        return None
    slo = outcome.question.slo
    limit = slo.limits[0].limit_s
    # Beyond three limits nobody asks how much longer it takes; the table of points says it.
    highest = min(3 * limit, max(limit, *(each.high_s or each.latency_s or 0 for each in known)))
    across = _axis([each.value for each in known])
    upright = seconds_axis(highest)
    plot = Plot(across, upright, height=HEIGHT_PX)
    harder_right = outcome.question.axis == "streams"
    for edge, holds in ((outcome.holds, True), (outcome.fails, False)):
        if edge is not None:
            low, high = (across.low, edge) if holds == harder_right else (edge, across.high)
            kind, says = ("holds", "holds") if holds else ("fails", "does not hold")
            plot.shade(low, high, kind, f"certified: it {says}")
            plot.note((low + high) / 2, upright.high * 0.95, says, "above")
    unit = "open user streams" if harder_right else "mean turn gap, seconds"
    name = f"p{slo.share * 100:g} of {slo.limits[0].metric.upper()}"
    plot.grid(x_title=unit, y_title=name)
    plot.level(limit, "budget")
    plot.curve([(each.value, each.fitted_s) for each in known if each.fitted_s is not None], "p95")
    for each in known:
        _dot(plot, each)
    plot.names_at_end([(limit, "limit", "budget-label")])
    return plot.svg(f"{name} against {unit}", says=outcome.says, kind="wide-end")


def _table(outcome: SearchOutcome) -> Table:
    return Table(
        summary="The points of the search as a table",
        caption="All points of a setting together, the percentile with its 95 % interval.",
        heads=("setting", "points", "requests", "broke the limit", measure_of(outcome)),
        rows=tuple(
            (
                each.setting,
                words.count(len(each.points)),
                words.count(each.n),
                words.count(each.bad),
                Cell(words.seconds(each.latency_s), words.between(each.low_s, each.high_s)),
            )
            for each in outcome.measured
        ),
    )


def _dot(plot: Plot, each: Measured) -> None:
    if each.latency_s is None:
        return
    if each.low_s is not None:
        plot.whisker(each.value, each.low_s, each.high_s, "p95")
    title = f"{each.setting}: {words.seconds(each.latency_s)}, {each.bad:,} of {each.n:,} requests broke the limit"
    plot.dot((each.value, each.latency_s), "p95", title)


def _axis(values: list[float]) -> Axis:
    room = max((values[-1] - values[0]) * 0.04, values[0] * 0.04)
    low, high = values[0] - room, values[-1] + room
    ticks: list[tuple[float, str]] = []
    last = -math.inf
    for value in values:
        if (value - last) / (high - low) >= TICKS:
            ticks.append((value, f"{value:g}"))
            last = value
    return Axis(low, high, tuple(ticks))
