"""What the engine did while requests were under way, as rows of text: the timelines mark the same events."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.report.render import words
from bench.report.render.figure_timeline import EVENTS_DRAWN, PHASES
from bench.report.render.happenings import happenings
from bench.report.render.thinning import of_each_kind

if TYPE_CHECKING:
    from bench.report.model import Report
    from bench.report.render.happenings import Happening
    from bench.report.render.samples import Samples

NAMES: Final = {
    "jit": "kernel compiled",
    "compiled": "compiled code written",
    "graph_capture": "graph captured",
    "preemption": "request preempted",
    "error": "error",
    "warning": "warning",
    "died": "engine died",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """One event.

    Attributes:
        run: from 1.
        when: since the run began.
        where: point and phase.
        name: what it means.
        line: of the log, as it was written; of compiled code, whose cache it is in, and the file.
        number: of that line; empty where there is no log.
        replica: "replica 1"; empty where there is one engine.
    """

    run: int
    when: str
    where: str
    name: str
    line: str
    number: str
    replica: str


@dataclass(frozen=True, slots=True)
class Events:
    """Those that are listed, in order of time.

    Attributes:
        rows: of them.
        left_out: how many more there were at points.
        elsewhere: how many before, between and after them.
        in_caches: whether any was seen in the engine's caches.
    """

    rows: tuple[EventRow, ...]
    left_out: int
    elsewhere: int
    in_caches: bool


def events_of(report: Report, samples: Samples) -> Events:
    """The events at the report's points; those that the timelines mark."""
    places: dict[int, list[tuple[float, float, str]]] = {}
    for point in report.points:
        for window in point.runs:
            for span in samples.phases(window.run, point.index):
                name = f"{point.label}, {PHASES.get(span.name, span.name)}"
                places.setdefault(window.run, []).append((span.start_s, span.end_s, name))
    for spans in places.values():
        spans.sort()
    found = []
    events = happenings(samples.measurement.seen)
    for event in events:
        spans = places.get(event.run, [])
        after = bisect_right(spans, event.t, key=lambda span: span[0])
        if after and event.t < spans[after - 1][1]:
            found.append(_row(event, spans[after - 1][2]))
    chosen = [found[index] for index in of_each_kind([row.name for row in found], EVENTS_DRAWN)]
    in_caches = any(row.name == NAMES["compiled"] for row in chosen)
    return Events(tuple(chosen), len(found) - len(chosen), len(events) - len(found), in_caches)


def _row(event: Happening, where: str) -> EventRow:
    return EventRow(
        run=event.run + 1,
        when=words.clock(event.t),
        where=where,
        name=NAMES[event.event],
        line=event.line,
        number="" if event.line_number is None else words.count(event.line_number),
        replica="" if event.replica is None else f"replica {event.replica}",
    )
