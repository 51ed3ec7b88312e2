"""p95 of E2E against the load, of all reports of a release, as one SVG file that stands by itself.

It is drawn by the code that draws the report's page (`bench.report.render.charts`) and carries that page's style sheet.
The file is always light, on an opaque ground: a picture in somebody's page cannot know that page's colours.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from bench.release.series import UNITS, rows_of
from bench.report.render import words
from bench.report.render.charts import Plot, seconds_axis, tag
from bench.report.render.drawings import BUDGET_S
from bench.report.render.figure_latency import load_axis
from bench.report.render.html import STYLE

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from bench.release.series import Row
    from bench.report.model import Report
    from recipes.schema import Claim

WIDTH_PX: Final = 860
PLANE_PX: Final = 300
ABOVE_PX: Final = 46
"""Room over a plane: its heading and the name of its axis."""
BELOW_PX: Final = 58
LEFT_PX: Final = 64
LETTER_PX: Final = 8.6
"""Width of a bold letter of 12 px, generously."""
LINE_PX: Final = 17
LINE_LETTERS: Final = 118
COLOURS: Final = 8
"""Classes s0 to s7 of the style sheet."""


def _coloured() -> str:
    """On the page these classes colour lines only; here names and dots have it too."""
    return "\n".join(
        f"svg text.s{n}, circle.s{n} {{ fill: var(--s{n}); stroke: none; font-weight: 600; }}" for n in range(COLOURS)
    )


_STYLE: Final = f"""{STYLE.replace("(prefers-color-scheme: dark)", "not all")}
svg {{ font: 12px system-ui, -apple-system, "Segoe UI", Roboto, Helvetica, Arial, sans-serif; }}
svg.chart, svg.wide-end {{ width: auto; padding: 0; }}
svg text.heading {{ fill: var(--ink); font-size: 15px; font-weight: 600; }}
svg text.title {{ fill: var(--ink); }}
.ground {{ fill: var(--page); }}
path.former {{ stroke: var(--soft); stroke-dasharray: 5 4; }}
circle.former {{ fill: var(--soft); }}
line.former {{ stroke: var(--soft); }}
svg text {{ stroke: none; }}
{_coloured()}
"""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A report in the picture.

    Attributes:
        name: at the end of its curve.
        report: what it says.
        claims: of its recipe.
        former: it belongs to a former release and is drawn for comparison only.
    """

    name: str
    report: Report
    claims: tuple[Claim, ...]
    former: bool = False


@dataclass(frozen=True, slots=True)
class _Curve:
    name: str
    kind: str
    rows: tuple[Row, ...]
    claims: tuple[Claim, ...]


def draw(reports: Sequence[Drawn]) -> str | None:
    """The SVG file; None where no report has a p95 on an axis.

    Args:
        reports: those of the release, then former ones.
    """
    panels = [(unit, curves) for unit in UNITS if (curves := list(_curves(reports, unit)))]
    if not panels:
        return None
    head = [*_head(reports, {curve.name for _, curves in panels for curve in curves})]
    top = 14 + LINE_PX * len(head)
    parts: list[Markup] = []
    for unit, curves in panels:
        parts += [*_panel(unit, curves, top)]
        top += ABOVE_PX + PLANE_PX + BELOW_PX
    note = (
        "Bars are 95 % confidence intervals. The dashed line is the one-second budget, short lines are claims' limits."
    )
    parts.append(tag("text", note, x=LEFT_PX - 44, y=top + 4))
    height = top + 18
    ground = tag("rect", width=WIDTH_PX, height=height, class_="ground")
    texts = [
        tag("text", text, x=LEFT_PX - 44, y=24 + LINE_PX * index, class_="title") for index, text in enumerate(head)
    ]
    label = f"p95 of E2E against {' and against '.join(unit for unit, _ in panels)}"
    picture = tag(
        "svg",
        tag("title", label),
        tag("style", Markup(_STYLE)),  # noqa: S704  a file of this project
        ground,
        *texts,
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        width=WIDTH_PX,
        height=height,
        viewBox=f"0 0 {WIDTH_PX} {height}",
        role="img",
    )
    return f"{picture}\n"


def _head(reports: Sequence[Drawn], drawn: Container[str]) -> Iterator[str]:
    """Name and title of every report that is drawn: a picture travels alone, and a title says what was not real."""
    for each in reports:
        if each.name in drawn and not each.former:
            yield from textwrap.wrap(f"{each.name}: {each.report.title}", LINE_LETTERS, subsequent_indent="   ")


def _curves(reports: Sequence[Drawn], unit: str) -> Iterator[_Curve]:
    several = sum(not each.former for each in reports) > 1
    for index, each in enumerate(reports):
        rows = tuple(
            sorted(
                (row for row in rows_of(each.report) if row.unit == unit and row.value_s is not None),
                key=lambda row: row.load,
            )
        )
        if rows:
            kind = "former" if each.former else f"s{index % COLOURS}" if several else "p95"
            yield _Curve(each.name, kind, rows, each.claims)


def _panel(unit: str, curves: Sequence[_Curve], top: float) -> Iterator[Markup]:
    loads = sorted({row.load for curve in curves for row in curve.rows})
    limits = sorted({limit for curve in curves for limit in _limits(curve, unit, loads)})
    ends = [end for curve in curves for row in curve.rows for end in (row.value_s, row.high_s) if end is not None]
    highest = max([*ends, BUDGET_S, *(limit for _, limit, _ in limits)])
    plot = Plot(load_axis(loads), seconds_axis(highest), height=PLANE_PX)
    plot.grid(x_title=unit)
    plot.level(BUDGET_S, "budget")
    for load, limit, name in limits:
        plot.rung((load, limit), "limit", f"{name}: at most {words.seconds(limit)}")
    for number, curve in enumerate(curves):
        _draw(plot, curve, shift_px=4 * (number - (len(curves) - 1) / 2))
    names = [(curve.rows[-1].value_s or 0, curve.name, curve.kind) for curve in curves]
    plot.names_at_end([*names, (BUDGET_S, "budget", "budget-label")])
    right = 14 + LETTER_PX * max(len(name) for name in [*(curve.name for curve in curves), "budget"])
    yield tag("text", f"p95 of E2E against {unit}", x=LEFT_PX - 44, y=top + 22, class_="heading")
    yield tag(
        "svg",
        plot.svg(f"p95 of E2E against {unit}"),
        x=LEFT_PX,
        y=top + ABOVE_PX,
        width=round(WIDTH_PX - LEFT_PX - right),
        height=PLANE_PX,
        overflow="visible",
    )


def _draw(plot: Plot, curve: _Curve, *, shift_px: float) -> None:
    places = [(float(row.load), row.value_s) for row in curve.rows if row.value_s is not None]
    plot.curve(places, f"curve {curve.kind}", shift_px=shift_px)
    for row, place in zip(curve.rows, places, strict=True):
        if row.low_s is not None:
            plot.whisker(row.load, row.low_s, row.high_s, curve.kind, shift_px=shift_px)
        plot.dot(place, curve.kind, f"{curve.name}, {row.label}: {row.text}", shift_px=shift_px)


def _limits(curve: _Curve, unit: str, loads: Sequence[int]) -> Iterator[tuple[int, float, str]]:
    kind = "streams" if unit == UNITS[0] else "concurrent"
    for claim in curve.claims:
        load = getattr(claim.point, kind)
        if claim.metric == "e2e" and claim.quantile == 0.95 and load in loads:
            yield load, claim.limit_s, claim.id
