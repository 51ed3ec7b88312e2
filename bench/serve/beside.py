"""Reports beside each other: their p95 at every operating point, as their own `report.json` has them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from bench.report.render import words
from bench.report.render.tables import Cell, Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.report.model import Report
    from bench.report.render.tables import Row


def p95_cells(report: Report) -> dict[str, Cell]:
    """p95 of E2E with its interval, by the label of its point.

    A search measures one point several times: its figures stand in its own page.
    """
    times = Counter(point.label for point in report.points)
    return {
        point.label: Cell(words.estimate(point.e2e.p95), words.interval(point.e2e.p95))
        if times[point.label] == 1
        else Cell(f"{times[point.label]:,} times")
        for point in report.points
    }


def p95_table(reports: Mapping[str, Mapping[str, Cell]]) -> Table:
    """A row a point, a column a report.

    Args:
        reports: their p95 by label, by the heading of their column.
    """
    labels = dict.fromkeys(label for cells in reports.values() for label in cells)
    rows: list[Row] = [
        (label, *(cells.get(label, Cell(words.ABSENT)) for cells in reports.values())) for label in labels
    ]
    return Table(
        summary="p95 of E2E",
        caption="p95 of E2E with its interval, as a report has it. No change is judged here.",
        heads=("point", *reports),
        rows=tuple(rows),
    )
