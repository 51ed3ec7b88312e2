"""p95 of E2E against the load, as both pictures of a release need it: the drawn one and the one of letters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.report.render import words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.report.model import PointReport, Report

STREAMS: Final = "open user streams"
CONCURRENT: Final = "concurrent requests, closed loop"
UNITS: Final = (STREAMS, CONCURRENT)
"""What the load of a point can be counted in, so that points can stand on one axis."""


@dataclass(frozen=True, slots=True)
class Row:
    """p95 of E2E at one point, or of all points of one setting of a search.

    Attributes:
        label: "40 streams".
        unit: what `load` counts; None for a point that fits no axis (an open loop, a trace, interrupted streams).
        load: streams or concurrent requests.
        value_s: seconds; None where there is no figure.
        low_s, high_s: its confidence interval; `high_s` is None where only that falls among the failures.
        text: the figure, or why there is none.
    """

    label: str
    unit: str | None
    load: int
    value_s: float | None
    low_s: float | None
    high_s: float | None
    text: str


def rows_of(report: Report) -> tuple[Row, ...]:
    """Every row of a report, in the order of its ladder; of a search the easiest setting first.

    A search for another percentile or another latency than p95 of E2E gives none: its page draws it.
    """
    return tuple(_searched(report)) if report.searches else tuple(_row(point) for point in report.points)


def _row(point: PointReport) -> Row:
    p95 = point.e2e.p95
    unit = None if point.streams is point.concurrent is None else STREAMS if point.streams is not None else CONCURRENT
    return Row(
        label=point.label,
        unit=unit,
        load=point.streams or point.concurrent or 0,
        value_s=p95.value,
        low_s=p95.low,
        high_s=p95.high,
        text=words.estimate(p95),
    )


def _searched(report: Report) -> Iterator[Row]:
    seen: set[str] = set()
    for outcome in report.searches:
        question = outcome.question
        if question.slo.limits[0].metric != "e2e" or question.slo.share != 0.95:
            continue
        for each in outcome.measured:
            if each.setting in seen:  # several limits can be asked of the same points
                continue
            seen.add(each.setting)
            yield Row(
                label=each.setting,
                unit=STREAMS if question.axis == "streams" else None,
                load=int(each.value),
                value_s=each.latency_s,
                low_s=each.low_s,
                high_s=each.high_s,
                text=words.seconds(each.latency_s),
            )
