"""The page's figures, each with its heading, what to say under it, and the table beneath it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.report.render import words
from bench.report.render.figure_ecdf import Curve, ecdf_figure, ecdf_table, thinned
from bench.report.render.figure_gauges import gauge_figure, gauge_table, gauges_of
from bench.report.render.figure_latency import Limit, latency_figure, undrawn
from bench.report.render.figure_timeline import timeline_figure, timeline_table
from bench.report.render.gpus import power_limits, throttling
from bench.report.render.happenings import happenings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from markupsafe import Markup

    from bench.report.evidence import Evidence
    from bench.report.model import PointReport, Report
    from bench.report.render.figure_timeline import Timeline
    from bench.report.render.samples import Metric, Samples
    from bench.report.render.tables import Table

BUDGET_S: Final = 1.0
"""The line that every latency is drawn against: a voice agent's reply has one second."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure with its heading, what to say under it, and its table where it has one of its own."""

    title: str
    figure: Markup
    caption: str
    table: Table | None = None


@dataclass(frozen=True, slots=True)
class Distribution:
    """A figure with one curve an operating point; `names` in the order of their colours."""

    title: str
    figure: Markup
    names: tuple[str, ...]
    caption: str
    table: Table


@dataclass(frozen=True, slots=True)
class GaugesOfRun:
    """Small figures of one run over the same time, the table of them, and what else is known."""

    title: str
    figures: tuple[Markup, ...]
    table: Table | None
    note: str


def latency_drawings(report: Report, evidence: Evidence) -> Iterator[Drawing]:
    """Percentiles of E2E against the load, one drawing a kind of point; their table is that of the operating points."""
    kinds: tuple[tuple[str, str], ...] = (
        ("streams", "open user streams"),
        ("concurrent", "concurrent requests, closed loop"),
    )
    judged = {claim.id for claim in report.claims if claim.verdict != "not comparable"}
    for kind, unit in kinds:
        points = [point for point in report.points if getattr(point, kind) is not None and point.e2e.p50.n]
        if not points:
            continue
        limits = [
            Limit(load, claim.limit_s, claim.id, claim.id in judged)
            for claim in evidence.recipe.claims
            if claim.metric == "e2e"
            and (load := getattr(claim.point, kind)) in {getattr(point, kind) for point in points}
        ]
        missing = undrawn(points)
        caption = "Bars are distribution-free confidence intervals; the dashed line is the one-second budget."
        if any(limit.judged for limit in limits):
            caption += " Short red lines are the limits of the claims."
        if not all(limit.judged for limit in limits):
            caption += " Short grey lines are published for other setups and judge nothing here."
        if missing:
            caption += f" Not drawn: {', '.join(missing)}."
        yield Drawing(f"E2E against {unit}", latency_figure(points, limits, BUDGET_S, unit=unit), caption)


def distributions(report: Report, samples: Samples) -> Iterator[Distribution]:
    """The whole distributions of E2E and TTFT."""
    metrics: tuple[tuple[Metric, str], ...] = (("e2e", "E2E"), ("ttft", "time to first token"))
    for metric, name in metrics:
        curves = [Curve(point.label, samples.window(point.index, metric)) for point in report.points]
        curves = [curve for curve in curves if len(curve.sample.values)]
        if curves:
            failed = sum(curve.sample.failures for curve in curves)
            ends = f"A curve ends below 100 % where requests failed ({failed:,} here)." if failed else ""
            yield Distribution(
                f"Distribution of {name}",
                ecdf_figure(curves, what=name, budget_s=BUDGET_S),
                tuple(curve.name for curve in curves),
                " ".join(text for text in (ends, thinned(curves)) if text),
                ecdf_table(curves, what=name, budget_s=BUDGET_S),
            )


def timelines(panels: Sequence[tuple[PointReport, int]], samples: Samples) -> Iterator[Drawing]:
    """What every stream did, one drawing a point and run.

    Args:
        panels: point and run of each.
        samples: of the report.
    """
    every = happenings(samples.measurement.seen)
    for point, run in panels:
        bars = samples.bars(run, point.index)
        if not len(bars.stream):
            continue
        label = f"{point.label}, run {run + 1}"
        phases = samples.phases(run, point.index)
        events = [event for event in every if event.run == run]
        drawn = timeline_figure(bars, phases, events, label=label, share=len(panels))
        yield Drawing(label, drawn.figure, _shown(drawn), timeline_table(bars, phases, events, label=label))


def _shown(drawn: Timeline) -> str:
    text = (
        f"All {words.plural(drawn.requests, 'request')}."
        if (drawn.drawn, drawn.rows) == (drawn.requests, drawn.streams)
        else f"Drawn: {drawn.rows:,} of {drawn.streams:,} streams, evenly spaced, "
        f"with {drawn.drawn:,} of all {drawn.requests:,} requests."
    )
    if drawn.marked < drawn.events:
        text += f" Of {drawn.events:,} events of the engine {drawn.marked:,} are marked, of each kind evenly."
    return text


def gauges_by_run(report: Report, evidence: Evidence, samples: Samples, *, gpu: bool) -> Iterator[GaugesOfRun]:
    """What was sampled about once a second: of the GPUs, or of the rest."""
    limits = power_limits(evidence.environment)
    for run in sorted({seen.run for seen in evidence.observations}):
        every = gauges_of(evidence.observations, run, limits)
        gauges = [gauge for gauge in every if gauge.gpu == gpu]
        if not gauges:
            continue
        # In order of the ladder: a point that was measured in this run, with its window.
        windows = [
            (point.label, span)
            for point in report.points
            for span in samples.phases(run, point.index)
            if span.name == "steady"
        ]
        low = min(gauge.places[0][0] for gauge in every)
        high = max(gauge.places[-1][0] for gauge in every)
        spans = [span for _, span in windows]
        what = f"{'GPU' if gpu else 'Engine and host'} in run {run + 1}"
        yield GaugesOfRun(
            f"Run {run + 1}",
            tuple(gauge_figure(gauge, spans, low, high) for gauge in gauges),
            gauge_table(gauges, [(name, span.start_s, span.end_s) for name, span in windows], what=what),
            throttling(evidence.observations, [(run, span) for span in spans]) if gpu else "",
        )
