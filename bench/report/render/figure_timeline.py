"""What every stream did, and what the engine did meanwhile: one row a stream, one bar a request.

A bar has up to three parts: waiting in the client (intended until sent), until the first token (the engine's queue and
prefill), and decoding (until the last byte). A failure is one part of its own.

Thinning, said under the figure: whole streams are left out, never requests of a stream that is drawn, so that an idle
stream is one that was idle. The streams drawn are evenly spaced, at most `ROWS_DRAWN` of them, and as many as keep the
figure under its share of `BARS_DRAWN` requests. Only where a single stream has more than that are its requests thinned,
evenly; failures are then thinned apart from the others. Events of the engine are thinned too, each kind apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bench.report.render import words
from bench.report.render.charts import Axis, Plot, clock_axis
from bench.report.render.tables import Cell, Row, Table
from bench.report.render.thinning import evenly, of_each_kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markupsafe import Markup
    from numpy.typing import NDArray

    from bench.report.render.happenings import Happening

ROWS_DRAWN: Final = 60
BARS_DRAWN: Final = 24_000
"""Requests drawn in all timelines of a page together: about 1.2 MB of SVG."""
FIGURE_BARS: Final = 5_000
"""Requests drawn in one timeline at most."""
EVENTS_DRAWN: Final = 100
"""Of each kind."""
PHASES: Final = {"prime": "priming", "ramp": "ramp", "steady": "measured window", "drain": "drain"}
"""The phases of a point as people read them."""
PLANE_PX: Final = 260
"""Least and usual height of the plane."""
ROW_LIMITS_PX: Final = (4.0, 14.0)


@dataclass(frozen=True, slots=True, eq=False)
class Bars:
    """The requests of one point of one run; every array of shape (n,), times in seconds.

    Attributes:
        stream: index of the stream.
        intended, sent, first_token, done: as in the records; NaN where there was none.
        failed: whether the outcome was not OK.
    """

    stream: NDArray[np.int64]
    intended: NDArray[np.float64]
    sent: NDArray[np.float64]
    first_token: NDArray[np.float64]
    done: NDArray[np.float64]
    failed: NDArray[np.bool_]

    def take(self, chosen: NDArray[np.bool_] | NDArray[np.int64]) -> Bars:
        """Some of them, by mask or by index."""
        return Bars(
            self.stream[chosen],
            self.intended[chosen],
            self.sent[chosen],
            self.first_token[chosen],
            self.done[chosen],
            self.failed[chosen],
        )


@dataclass(frozen=True, slots=True)
class Span:
    """A phase of the point: name, start and end in seconds since the run's epoch."""

    name: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Timeline:
    """A drawn timeline and how much of the whole it shows.

    Attributes:
        figure: the chart.
        drawn, requests: bars drawn, of how many.
        rows, streams: rows drawn, of how many.
        marked, events: events of the engine drawn, of how many at this point.
    """

    figure: Markup
    drawn: int
    requests: int
    rows: int
    streams: int
    marked: int
    events: int


def timeline_figure(
    bars: Bars, phases: Sequence[Span], events: Sequence[Happening], *, label: str, share: int
) -> Timeline:
    """Draws one operating point of one run.

    Args:
        bars: one or more requests.
        phases: of the point, in order; they shade the plane.
        events: of the engine, of the same run.
        label: names point and run.
        share: how many timelines the page has.
    """
    low = min([float(bars.intended.min())] + [phase.start_s for phase in phases])
    high = max([float(np.nanmax(bars.done))] + [phase.end_s for phase in phases])
    most = min(FIGURE_BARS, BARS_DRAWN // share)
    streams, requests = np.unique(bars.stream, return_counts=True)
    shown = streams[_rows(requests, most)]
    kept = _thin(bars.take(np.isin(bars.stream, shown)), most)
    row_px = min(ROW_LIMITS_PX[1], max(ROW_LIMITS_PX[0], PLANE_PX / len(shown)))
    plot = Plot(clock_axis(low, high), Axis(0, len(shown)), height=round(row_px * len(shown)))
    for phase in phases:
        plot.shade(phase.start_s, phase.end_s, f"phase {phase.name}", PHASES.get(phase.name, phase.name))
    plot.grid(x_title="since the run began")
    inside = [event for event in events if low <= event.t <= high]
    marked = [inside[index] for index in of_each_kind([event.event for event in inside], EVENTS_DRAWN)]
    for event in marked:
        plot.upright(event.t, f"event {event.event}", title=f"{event.event}: {event.line}")
    row_of = {int(stream): len(shown) - row - 0.5 for row, stream in enumerate(shown)}
    thickness = round(max(1.5, row_px * 0.7), 1)
    for kind, start, end in _parts(kept):
        lines = [
            [(float(begin), row_of[int(stream)]), (float(finish), row_of[int(stream)])]
            for stream, begin, finish in zip(kept.stream, start, end, strict=True)
            if finish > begin  # false for NaN too: no such part
        ]
        plot.strokes(lines, kind, thickness=thickness)
    figure = plot.svg(
        f"Requests over time, {label}",
        says=f"A row a stream, a bar a request: {words.plural(len(bars.stream), 'request')} of "
        f"{words.plural(len(streams), 'stream')}, {int(bars.failed.sum()):,} failed; "
        f"{words.plural(len(inside), 'event')} of the engine.",
        kind="timeline",
    )
    return Timeline(figure, len(kept.stream), len(bars.stream), len(shown), len(streams), len(marked), len(inside))


def timeline_table(bars: Bars, phases: Sequence[Span], events: Sequence[Happening], *, label: str) -> Table:
    """What happened in each phase of one point of one run.

    Args:
        bars: as drawn, before they were thinned.
        phases: of the point, in order.
        events: of the engine, of the same run.
        label: names point and run.
    """
    rows: list[Row] = []
    for phase in phases:
        inside = bars.take((bars.intended >= phase.start_s) & (bars.intended < phase.end_s))
        met = sum(phase.start_s <= event.t < phase.end_s for event in events)
        parts = [_lengths(end - start) for _, start, end in _parts(inside)[:3]]
        rows.append(
            (
                Cell(PHASES.get(phase.name, phase.name), f"{words.clock(phase.start_s)} to {words.clock(phase.end_s)}"),
                words.count(len(inside.stream)),
                words.count(int(inside.failed.sum())),
                *parts,
                words.count(met),
            )
        )
    caches = " and of its caches" if any(event.event == "compiled" for event in events) else ""
    return Table(
        summary=f"Phases of {label} as a table",
        caption="Requests by the phase in which they were due, and how long their parts took: the median, and below it "
        f"the longest. Events are those of the engine's log{caches}.",
        heads=("phase", "requests", "failed", "waiting in the client", "until the first token", "decoding", "events"),
        rows=tuple(rows),
    )


def _lengths(lengths: NDArray[np.float64]) -> Cell:
    known = lengths[~np.isnan(lengths)]
    if not len(known):
        return Cell(words.ABSENT)
    return Cell(words.seconds(float(np.median(known))), f"at most {words.seconds(float(known.max()))}")


def _rows(requests: NDArray[np.int64], most: int) -> list[int]:
    """Which streams to draw, given the requests of each: as many as fit, evenly spaced, at least one."""
    for rows in range(min(len(requests), ROWS_DRAWN), 1, -1):
        chosen = evenly(len(requests), rows)
        if requests[chosen].sum() <= most:
            return chosen
    return [0]


def _thin(bars: Bars, most: int) -> Bars:
    if len(bars.stream) <= most:
        return bars
    order = np.argsort(bars.intended, kind="stable")
    failed = order[bars.failed[order]]
    fine = order[~bars.failed[order]]
    chosen = np.concatenate([part[evenly(len(part), most)] for part in (fine, failed)])
    return bars.take(np.sort(chosen))


def _parts(bars: Bars) -> list[tuple[str, NDArray[np.float64], NDArray[np.float64]]]:
    """(class, starts, ends) of every part; NaN where a request has no such part."""
    fine = ~bars.failed
    nothing = np.full(len(bars.stream), np.nan)
    return [
        ("waiting", np.where(fine, bars.intended, nothing), bars.sent),
        ("prefill", np.where(fine, bars.sent, nothing), bars.first_token),
        ("decode", np.where(fine, bars.first_token, nothing), bars.done),
        ("failed", np.where(bars.failed, bars.intended, nothing), bars.done),
    ]
