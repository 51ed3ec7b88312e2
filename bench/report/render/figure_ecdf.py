"""The whole distribution: for every latency, the share of requests that were at least as fast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.report.render.charts import Plot, evenly, seconds_axis, share_axis

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markupsafe import Markup

    from bench.stats.quantiles import Sample

HEIGHT_PX: Final = 240
STEPS_DRAWN: Final = 300
"""More steps than the plane has pixels cannot be seen: this many ranks are drawn, evenly spaced, the fastest and the
slowest request always among them."""
COLOURS: Final = 8
"""Classes `s0` to `s7` of the style sheet; further curves begin again and are told apart by their names."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One operating point's sample.

    Attributes:
        name: of the point.
        sample: its successes in order, and how many failed.
    """

    name: str
    sample: Sample


def ecdf_figure(curves: Sequence[Curve], *, what: str, budget_s: float | None = None) -> Markup:
    """Draws the empirical distribution functions; failures never arrive, so a curve with some ends below 100 %.

    Args:
        curves: each with one success or more.
        what: the metric, for the axis and the label.
        budget_s: an upright line, where there is one.
    """
    slowest = max(float(curve.sample.values[-1]) for curve in curves)
    plot = Plot(seconds_axis(slowest), share_axis(), height=HEIGHT_PX)
    plot.grid(x_title=what, y_title="share of requests")
    plot.level(0.95, "guide", "95 %")
    if budget_s is not None and budget_s <= slowest:
        plot.upright(budget_s, "budget", label="budget")
    for number, curve in enumerate(curves):
        plot.curve(_steps(curve.sample), f"curve s{number % COLOURS}")
    return plot.svg(f"Distribution of {what} by operating point; percentiles stand in the table of operating points")


def _steps(sample: Sample) -> list[tuple[float, float]]:
    total = len(sample.values) + sample.failures
    places: list[tuple[float, float]] = []
    share = 0.0
    for rank in evenly(len(sample.values), STEPS_DRAWN):
        value = float(sample.values[rank])
        places += [(value, share), (value, share := (rank + 1) / total)]
    return places
