"""The whole distribution: for every latency, the share of requests that were at least as fast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.report.estimates import estimate
from bench.report.render import words
from bench.report.render.charts import Plot, seconds_axis, share_axis
from bench.report.render.tables import Cell, Row, Table
from bench.report.render.thinning import evenly

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markupsafe import Markup

    from bench.stats.quantiles import Sample

HEIGHT_PX: Final = 240
STEPS_DRAWN: Final = 300
"""More steps than the plane has pixels cannot be seen: this many ranks are drawn, evenly spaced, the fastest and the
slowest request always among them."""
COLOURS: Final = 8
"""Classes `s0` to `s7` of the style sheet, each with a colour and a dash; further curves begin again."""
SHARES: Final = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
"""At which the table tells the curves."""


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
    plot.grid(x_title=what, y_title="share of requests", y_title_px=24)
    plot.level(0.95, "guide", "95 %")
    if budget_s is not None and budget_s <= slowest:
        plot.upright(budget_s, "budget", label="budget")
    for number, curve in enumerate(curves):
        plot.curve(_steps(curve.sample), f"curve s{number % COLOURS}")
    within = [f"{_within(curve.sample, budget_s)} at {curve.name}" for curve in curves] if budget_s is not None else []
    return plot.svg(
        f"Distribution of {what} by operating point",
        says=f"Within {budget_s:g} s: {', '.join(within)}." if within else "",
        kind="tall",
    )


def ecdf_table(curves: Sequence[Curve], *, what: str, budget_s: float) -> Table:
    """The same distributions as figures.

    Args:
        curves: as drawn.
        what: the metric.
        budget_s: how many requests were at most that long is a column of its own.
    """
    rows: list[Row] = []
    for curve in curves:
        found = [estimate(curve.sample, share) for share in SHARES]
        figures = [Cell(words.estimate(each), words.interval(each)) for each in found]
        rows.append((curve.name, _within(curve.sample, budget_s), *figures))
    return Table(
        summary=f"Distribution of {what} as a table",
        caption=f"Share of requests within {budget_s:g} s, failures being late, and the {what} that so "
        "large a share of requests did not exceed, with its 95 % interval.",
        heads=("point", f"within {budget_s:g} s", *(f"{share * 100:g} %" for share in SHARES)),
        rows=tuple(rows),
    )


def thinned(curves: Sequence[Curve]) -> str:
    """What of the curves is not drawn, in words; empty where all of it is."""
    longest = max(len(curve.sample.values) for curve in curves)
    if longest <= STEPS_DRAWN:
        return ""
    return (
        f"Of a curve, at most {STEPS_DRAWN} steps are drawn, evenly spaced by rank, the fastest and the slowest "
        f"request among them: no curve lies off by more than {words.percent(1 / (STEPS_DRAWN - 1))} of the requests."
    )


def _within(sample: Sample, limit_s: float) -> str:
    return words.percent(1 - sample.over(limit_s) / sample.n)


def _steps(sample: Sample) -> list[tuple[float, float]]:
    total = len(sample.values) + sample.failures
    places: list[tuple[float, float]] = []
    share = 0.0
    for rank in evenly(len(sample.values), STEPS_DRAWN):
        value = float(sample.values[rank])
        places += [(value, share), (value, share := (rank + 1) / total)]
    return places
