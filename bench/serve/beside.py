"""Reports beside each other: their p95 at every operating point, as their own `report.json` has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.report.render import words
from bench.report.render.tables import Cell, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.report.model import Report
    from bench.report.render.tables import Row
    from bench.serve.entry import Entry


def p95_table(entries: Sequence[Entry]) -> Table:
    """p95 of E2E with its interval: a row a point, a column a report.

    Args:
        entries: reports that could be read; their columns are numbered from 1 in this order.
    """
    reports = [entry.report for entry in entries if entry.report is not None]
    labels = dict.fromkeys(point.label for report in reports for point in report.points)
    rows: list[Row] = [(label, *(_cell(report, label) for report in reports)) for label in labels]
    return Table(
        summary="p95 of E2E, side by side",
        caption="p95 of E2E with its interval, as each report has it. No change is judged here.",
        heads=("point", *(f"report {number}" for number in range(1, len(reports) + 1))),
        rows=tuple(rows),
    )


def _cell(report: Report, label: str) -> Cell:
    """A search measures one point several times: its figures stand in its own page."""
    found = [point.e2e.p95 for point in report.points if point.label == label]
    if len(found) != 1:
        return Cell(f"{len(found)} times" if found else words.ABSENT)
    return Cell(words.estimate(found[0]), words.interval(found[0]))
