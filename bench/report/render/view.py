"""What the page shows, gathered from report and evidence: figures drawn, tables as rows of text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bench.report.render.drawings import (
    Distribution,
    Drawing,
    GaugesOfRun,
    distributions,
    gauges_by_run,
    latency_drawings,
    timelines,
)
from bench.report.render.events import Events, events_of
from bench.report.render.figure_startup import startup_figure, startup_table
from bench.report.render.gpus import hardware
from bench.report.render.graphs import GraphUse, graph_use
from bench.report.render.samples import Samples
from bench.report.render.searches import SearchView, search_views
from bench.report.render.verdict import Headline, headline

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from markupsafe import Markup

    from bench.observe.observations import EngineStarted, ReplicaStarted
    from bench.report.evidence import Evidence
    from bench.report.model import Check, Report
    from bench.report.render.tables import Table

PANELS_DRAWN: Final = 40
"""Timelines in one page; further points have their figures in the tables."""
ENVIRONMENT_ROWS: Final = 200
LIST_LENGTH: Final = 12
"""A mapping of more plain values than this (the packages of an environment) is written as one row."""
VALUE_LETTERS: Final = 10_000
"""A value of the environment is cut after so many letters; `environment.json` has it whole."""


@dataclass(frozen=True, slots=True)
class Start:
    """One engine start: what it was, and its stages drawn and listed where the log gave them.

    Attributes:
        started: what is known of it.
        stages: (whose log, figure, table): of the engine, or of each replica.
    """

    started: EngineStarted
    stages: tuple[tuple[str, Markup, Table], ...]

    @classmethod
    def of(cls, started: EngineStarted) -> Start:
        """Draws the stages."""
        run = f"run {started.run + 1}"
        parts: dict[str, EngineStarted | ReplicaStarted] = {"the engine": started}
        if started.replicas:
            parts = {f"replica {number}": each for number, each in enumerate(started.replicas)}
        stages = (
            (name, startup_figure(each), startup_table(each, f"{run}, {name}" if started.replicas else run))
            for name, each in parts.items()
            if each.stages
        )
        return cls(started, tuple(stages))


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
        events: of the engine at the points.
        hardware: the GPUs by name; empty where there is none.
        replicas: engines side by side, by the recipe.
        starts: of the engine.
        searches: what the run searched for.
        graphs: how CUDA graphs were used; None where the engine did not tell.
        gauges: of engine and host, by run. gpus: of the GPUs, likewise.
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
    events: Events
    hardware: str
    replicas: int
    starts: tuple[Start, ...]
    searches: tuple[SearchView, ...]
    graphs: GraphUse | None
    gauges: tuple[GaugesOfRun, ...]
    gpus: tuple[GaugesOfRun, ...]
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
        latency=() if report.searches else tuple(latency_drawings(report, evidence)),
        distributions=() if report.searches else tuple(distributions(report, samples)),
        timelines=tuple(timelines(panels[:PANELS_DRAWN], samples)),
        timelines_left_out=max(0, len(panels) - PANELS_DRAWN),
        events=events_of(report, samples),
        hardware=hardware(evidence.environment),
        replicas=evidence.recipe.replicas,
        starts=tuple(Start.of(start) for start in starts),
        searches=search_views(report),
        graphs=graph_use(report, evidence),
        gauges=tuple(gauges_by_run(report, evidence, samples, gpu=False)),
        gpus=tuple(gauges_by_run(report, evidence, samples, gpu=True)),
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
