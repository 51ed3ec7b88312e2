"""Reports beside each other: their p95 at every operating point, as their own `report.json` has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.report.render import words
from bench.report.render.tables import Cell, Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.report.model import Report
    from bench.report.render.tables import Row


def p95_table(reports: Mapping[str, Report]) -> Table:
    """p95 of E2E with its interval: a row a point, a column a report.

    Args:
        reports: by the heading of their column.
    """
    labels = dict.fromkeys(point.label for report in reports.values() for point in report.points)
    rows: list[Row] = [(label, *(_cell(report, label) for report in reports.values())) for label in labels]
    return Table(
        summary="p95 of E2E",
        caption="p95 of E2E with its interval, as a report has it. No change is judged here.",
        heads=("point", *reports),
        rows=tuple(rows),
    )


def _cell(report: Report, label: str) -> Cell:
    """A search measures one point several times: its figures stand in its own page."""
    found = [point.e2e.p95 for point in report.points if point.label == label]
    if len(found) != 1:
        return Cell(f"{len(found)} times" if found else words.ABSENT)
    return Cell(words.estimate(found[0]), words.interval(found[0]))
