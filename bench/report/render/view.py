"""What the page shows, gathered from report and evidence: figures drawn, tables as rows of text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bench.report.render import words
from bench.report.render.figure_ecdf import Curve, ecdf_figure
from bench.report.render.figure_gauges import gauge_figure, gauges_of
from bench.report.render.figure_latency import Limit, latency_figure, undrawn
from bench.report.render.figure_startup import startup_figure
from bench.report.render.figure_timeline import timeline_figure
from bench.report.render.graphs import GraphUse, graph_use
from bench.report.render.samples import Samples
from bench.report.render.searches import SearchView, search_views
from bench.report.render.verdict import Headline, headline

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from markupsafe import Markup

    from bench.observe.observations import EngineStarted
    from bench.report.evidence import Evidence
    from bench.report.model import Check, PointReport, Report
    from bench.report.render.figure_timeline import Timeline
    from bench.report.render.samples import Metric

BUDGET_S: Final = 1.0
"""The line that every latency is drawn against: a voice agent's reply has one second."""
PANELS_DRAWN: Final = 40
"""Timelines in one page; further points have their figures in the tables."""
ENVIRONMENT_ROWS: Final = 200
LIST_LENGTH: Final = 12
"""A mapping of more plain values than this (the packages of an environment) is written as one row."""
VALUE_LETTERS: Final = 10_000
"""A value of the environment is cut after so many letters; `environment.json` has it whole."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure with its heading and what to say under it."""

    title: str
    figure: Markup
    caption: str


@dataclass(frozen=True, slots=True)
class Distribution:
    """A figure with one curve an operating point; `names` in the order of their colours."""

    title: str
    figure: Markup
    names: tuple[str, ...]
    caption: str


@dataclass(frozen=True, slots=True)
class Start:
    """One engine start: what it was, and its stages drawn where the log gave them."""

    started: EngineStarted
    figure: Markup | None


@dataclass(frozen=True, slots=True)
class Rule:
    """What became of one rule with one verdict.

    Attributes:
        name, verdict, advice: as in `bench.report.model.Check`.
        found: (points, measured, expected), a row for all points where it was the same.
    """

    name: str
    verdict: str
    advice: str
    found: tuple[tuple[str, str, str], ...]

    @property
    def same(self) -> bool:
        """Whether the same was expected everywhere."""
        return len({expected for _, _, expected in self.found}) == 1


@dataclass(frozen=True, slots=True)
class View:
    """Everything that the templates need.

    Attributes:
        report: the report itself.
        headline: the first sentence.
        rules: of validity, broken ones first, then unknown ones.
        latency: percentiles against the load, one drawing a kind of point.
        distributions: of E2E and TTFT.
        timelines: one drawing a point and run.
        timelines_left_out: points and runs beyond `PANELS_DRAWN`.
        starts: of the engine.
        searches: what the run searched for.
        graphs: how CUDA graphs were used; None where the engine did not tell.
        gauges: drawings by run.
        environment: (dotted key, value) in order of the file.
        environment_left_out: rows beyond `ENVIRONMENT_ROWS`.
    """

    report: Report
    headline: Headline
    rules: tuple[Rule, ...]
    latency: tuple[Drawing, ...]
    distributions: tuple[Distribution, ...]
    timelines: tuple[Drawing, ...]
    timelines_left_out: int
    starts: tuple[Start, ...]
    searches: tuple[SearchView, ...]
    graphs: GraphUse | None
    gauges: tuple[tuple[str, tuple[Markup, ...]], ...]
    environment: tuple[tuple[str, str], ...]
    environment_left_out: int


def view_of(report: Report, evidence: Evidence) -> View:
    """Gathers and draws."""
    samples = Samples.of(evidence)
    panels = [(point, window.run) for point in report.points for window in point.runs]
    rows = list(_flat(evidence.environment))
    starts = [start for _, start in sorted(samples.measurement.seen.started.items())]
    return View(
        report=report,
        headline=headline(report),
        rules=tuple(_rules(report)),
        # A search comes back to the same loads again and again; its own section draws them together.
        latency=() if report.searches else tuple(_latency(report, evidence)),
        distributions=() if report.searches else tuple(_distributions(report, samples)),
        timelines=tuple(_timelines(panels[:PANELS_DRAWN], samples)),
        timelines_left_out=max(0, len(panels) - PANELS_DRAWN),
        starts=tuple(Start(start, startup_figure(start) if start.stages else None) for start in starts),
        searches=search_views(report),
        graphs=graph_use(report, evidence),
        gauges=tuple(_gauges(evidence, samples)),
        environment=tuple(rows[:ENVIRONMENT_ROWS]),
        environment_left_out=max(0, len(rows) - ENVIRONMENT_ROWS),
    )


def _rules(report: Report) -> Iterator[Rule]:
    labels = {point.index: point.label for point in report.points}
    groups: dict[tuple[str, str, str], list[Check]] = {}
    for verdict in ("broken", "unknown", "kept"):
        for check in report.checks:
            if check.verdict == verdict:
                groups.setdefault((check.rule, verdict, check.advice if verdict != "kept" else ""), []).append(check)
    for (rule, verdict, advice), checks in groups.items():
        rows: dict[tuple[str, str], list[str]] = {}
        for check in checks:
            where = "whole run" if check.point is None else labels[check.point]
            rows.setdefault((check.measured, check.expected), []).append(where)
        found = tuple((", ".join(where), measured, expected) for (measured, expected), where in rows.items())
        yield Rule(name=rule, verdict=verdict, advice=advice, found=found)


def _latency(report: Report, evidence: Evidence) -> Iterator[Drawing]:
    kinds: tuple[tuple[str, str], ...] = (
        ("streams", "open user streams"),
        ("concurrent", "concurrent requests, closed loop"),
    )
    for kind, unit in kinds:
        points = [point for point in report.points if getattr(point, kind) is not None and point.e2e.p50.n]
        if not points:
            continue
        limits = [
            Limit(load, claim.limit_s, claim.id)
            for claim in evidence.recipe.claims
            if claim.metric == "e2e"
            and (load := getattr(claim.point, kind)) in {getattr(point, kind) for point in points}
        ]
        missing = undrawn(points)
        caption = "Bars are distribution-free confidence intervals; the dashed line is the one-second budget."
        if limits:
            caption += " Short red lines are the limits of the claims."
        if missing:
            caption += f" Not drawn: {', '.join(missing)}."
        yield Drawing(f"E2E against {unit}", latency_figure(points, limits, BUDGET_S, unit=unit), caption)


def _distributions(report: Report, samples: Samples) -> Iterator[Distribution]:
    metrics: tuple[tuple[Metric, str], ...] = (("e2e", "E2E"), ("ttft", "time to first token"))
    for metric, name in metrics:
        curves = [Curve(point.label, samples.window(point.index, metric)) for point in report.points]
        curves = [curve for curve in curves if len(curve.sample.values)]
        if curves:
            failed = sum(curve.sample.failures for curve in curves)
            yield Distribution(
                f"Distribution of {name}",
                ecdf_figure(curves, what=name, budget_s=BUDGET_S),
                tuple(curve.name for curve in curves),
                f"A curve ends below 100 % where requests failed ({failed:,} here)." if failed else "",
            )


def _timelines(panels: Sequence[tuple[PointReport, int]], samples: Samples) -> Iterator[Drawing]:
    for point, run in panels:
        bars = samples.bars(run, point.index)
        if not len(bars.stream):
            continue
        drawn = timeline_figure(
            bars,
            samples.phases(run, point.index),
            [event for event in samples.measurement.seen.events if event.run == run],
            label=f"{point.label}, run {run + 1}",
            share=len(panels),
        )
        yield Drawing(f"{point.label}, run {run + 1}", drawn.figure, _thinned(drawn))


def _thinned(drawn: Timeline) -> str:
    if (drawn.drawn, drawn.rows) == (drawn.requests, drawn.streams):
        return f"All {words.plural(drawn.requests, 'request')}."
    return (
        f"Drawn: {drawn.rows:,} of {drawn.streams:,} streams, evenly spaced, "
        f"with {drawn.drawn:,} of all {drawn.requests:,} requests."
    )


def _gauges(evidence: Evidence, samples: Samples) -> Iterator[tuple[str, tuple[Markup, ...]]]:
    for run in sorted({seen.run for seen in evidence.observations}):
        gauges = gauges_of(evidence.observations, run)
        if not gauges:
            continue
        windows = [
            span for point in samples.measurement.begun for span in samples.phases(run, point) if span.name == "steady"
        ]
        low = min(gauge.places[0][0] for gauge in gauges)
        high = max(gauge.places[-1][0] for gauge in gauges)
        yield f"Run {run + 1}", tuple(gauge_figure(gauge, windows, low, high) for gauge in gauges)


def _flat(value: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    for key, inner in value.items():
        name = f"{above}.{key}" if above else key
        if (
            isinstance(inner, dict)
            and len(inner) > LIST_LENGTH
            and not any(isinstance(v, dict | list) for v in inner.values())
        ):
            yield name, _cut(", ".join(f"{item} {_text(inner[item])}" for item in inner))
        elif isinstance(inner, dict) and inner:
            yield from _flat(inner, name)
        elif isinstance(inner, list) and any(isinstance(item, dict) for item in inner):
            yield from _flat({str(index): item for index, item in enumerate(inner)}, name)
        else:
            yield name, _cut(_text(inner))


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(_text(item) for item in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "unknown" if value is None else str(value)


def _cut(text: str) -> str:
    return text if len(text) <= VALUE_LETTERS else f"{text[:VALUE_LETTERS]} ..."
