"""Percentiles of E2E against the load, with the limits that they are held against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.report.render import words
from bench.report.render.charts import Axis, Plot, seconds_axis

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markupsafe import Markup

    from bench.report.model import Estimate, Latency, PointReport

HEIGHT_PX: Final = 280
PERCENTILES: Final = ("p50", "p90", "p95", "p99")
SHIFTS_PX: Final = {"p50": -6, "p90": -2, "p95": 2, "p99": 6}
"""Sideways, so that the intervals of one point do not lie on each other."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit that a claim puts on one point.

    Attributes:
        load: streams, or concurrent requests.
        limit_s: seconds.
        name: the claim's short name.
        judged: whether this measurement can be compared with it.
    """

    load: int
    limit_s: float
    name: str
    judged: bool = True


def latency_figure(points: Sequence[PointReport], limits: Sequence[Limit], budget_s: float, *, unit: str) -> Markup:
    """Draws E2E percentiles of points of one kind (all streams, or all concurrent requests).

    Args:
        points: one or more.
        limits: of claims on these points.
        budget_s: the line across: how long a reply may take.
        unit: what the horizontal axis counts.
    """
    loads = [point.streams or point.concurrent or 0 for point in points]
    placed = sorted(zip(loads, (point.e2e for point in points), strict=True), key=lambda pair: pair[0])
    highest = max(
        [value for _, latency in placed for name in PERCENTILES for value in _ends(_of(latency, name))]
        + [limit.limit_s for limit in limits]
        + [budget_s]
    )
    plot = Plot(load_axis([load for load, _ in placed]), seconds_axis(highest), height=HEIGHT_PX)
    plot.grid(x_title=unit, y_title="E2E")
    plot.level(budget_s, "budget")
    for limit in limits:
        kind, other = ("limit", "") if limit.judged else ("limit other", ", not comparable")
        plot.rung((limit.load, limit.limit_s), kind, f"{limit.name}: at most {words.seconds(limit.limit_s)}{other}")
    for name in PERCENTILES:
        _series(plot, name, placed)
    ends = [(last, name, name) for name in PERCENTILES if (last := _of(placed[-1][1], name).value) is not None]
    plot.names_at_end([*ends, (budget_s, "budget", "budget-label")])
    known = [f"{words.seconds(p95)} at {load:,}" for load, latency in placed if (p95 := latency.p95.value) is not None]
    return plot.svg(
        f"E2E percentiles against {unit}",
        says=f"p95: {', '.join(known) or 'not known'} {unit}. The budget is {words.seconds(budget_s)}. All figures "
        "stand in the table of operating points.",
        kind="wide-end",
    )


def undrawn(points: Sequence[PointReport]) -> list[str]:
    """What the figure cannot show, and why, in words: "p99 at 20 streams (not enough)"."""
    return [
        f"{name} at {point.label} ({words.estimate(_of(point.e2e, name))})"
        for point in points
        for name in PERCENTILES
        if _of(point.e2e, name).value is None
    ]


def _series(plot: Plot, name: str, placed: Sequence[tuple[int, Latency]]) -> None:
    shift = SHIFTS_PX[name]
    known = [(load, _of(latency, name)) for load, latency in placed]
    plot.curve([(load, found.value) for load, found in known if found.value is not None], name, shift_px=shift)
    for load, found in known:
        if found.value is None:
            continue
        if found.low is not None:
            plot.whisker(load, found.low, found.high, name, shift_px=shift)
        title = f"{name} at {load}: {words.seconds(found.value)} ({words.interval(found)}, {found.confidence:.0%})"
        plot.dot((load, found.value), name, title, shift_px=shift)


def load_axis(loads: Sequence[int]) -> Axis:
    """Ticks at the loads that were measured, and nowhere else; labels left out where they would touch."""
    room = max((loads[-1] - loads[0]) * 0.08, 0.5)
    low, high = loads[0] - room, loads[-1] + room
    ticks: list[tuple[float, str]] = []
    for load in reversed(loads):
        if not ticks or (ticks[-1][0] - load) / (high - low) >= 0.07:
            ticks.append((load, f"{load:,}"))
    return Axis(low, high, tuple(reversed(ticks)))


def _of(latency: Latency, name: str) -> Estimate:
    found: Estimate = getattr(latency, name)
    return found


def _ends(estimate: Estimate) -> list[float]:
    return [value for value in (estimate.value, estimate.high) if value is not None]
