"""What a run came to, on one screen: verdicts first, then the points, then what was wrong with the measurement."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bench.report.model import Check, ClaimVerdict, Estimate, PointReport, Report

STYLE: Final = {
    "reproduced": "bold green",
    "consistent with": "green",
    "not reproduced": "bold red",
    "invalid measurement": "bold red",
    "not enough samples": "yellow",
    "not comparable": "dim",
}


def summary(report: Report, folder: Path) -> RenderableType:
    """The report in short, as something rich can print."""
    parts: list[RenderableType] = [Text(report.title, style="bold")]
    if report.partial:
        parts.append(Text(f"PARTIAL: {report.partial_reason}", style="bold red"))
    broken = [check for check in report.checks if check.verdict == "broken"]
    if broken:
        parts.append(Text("INVALID: these figures prove nothing.", style="bold red"))
        parts += [_check(check, report) for check in broken]
    parts += [Text(), _points(report.points), Text(), *_claims(report.claims)]
    parts += [Text(), Text.assemble(("report  ", "dim"), str(folder / "report.html"))]
    parts.append(Text.assemble(("verify  ", "dim"), f"just verify {folder}"))
    return Padding(Group(*parts), (1, 0, 0, 0))


def _points(points: tuple[PointReport, ...]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in (
        "point",
        "requests",
        "failed",
        "E2E p50",
        "p90",
        "p95",
        "95 % interval",
        "TTFT p95",
        "hits",
        "accepted",
    ):
        table.add_column(title, justify="left" if title == "point" else "right")
    for point in points:
        hits = point.prefix_cache.measured_rate
        table.add_row(
            point.label + ("" if point.complete else " (cut off)"),
            str(point.requests),
            str(sum(point.failures.values())),
            _seconds(point.e2e.p50),
            _seconds(point.e2e.p90),
            Text(_seconds(point.e2e.p95), style="bold"),
            _interval(point.e2e.p95),
            _seconds(point.ttft.p95),
            "--" if hits is None else f"{hits:.1%}",
            "--" if point.speculation is None else f"{point.speculation.acceptance_length:.2f}",
        )
    return table


def _claims(claims: tuple[ClaimVerdict, ...]) -> list[RenderableType]:
    """The verdicts that say something; those that are about other targets are only counted."""
    about = [claim for claim in claims if claim.verdict != "not comparable"]
    lines: list[RenderableType] = [
        Text.assemble((claim.verdict, STYLE[claim.verdict]), f"  {claim.asks}. {claim.reason}") for claim in about
    ]
    others = len(claims) - len(about)
    if others:
        lines.append(
            Text(f"{others} published figures are not comparable with this target; the report says why.", "dim")
        )
    return lines


def _check(check: Check, report: Report) -> Text:
    where = "" if check.point is None else f" at {report.points[check.point].label}"
    measured = f"{check.rule}{where}: {check.measured}, expected {check.expected}."
    return Text.assemble(("  broken  ", "red"), measured, (f" {check.advice}", "dim"))


def _seconds(estimate: Estimate) -> str:
    if estimate.among_failures:
        return "failed"
    return "--" if estimate.value is None else f"{estimate.value:.3f} s"


def _interval(estimate: Estimate) -> str:
    if estimate.low is None:
        return "--"
    return f"{estimate.low:.3f} to " + ("--" if estimate.high is None else f"{estimate.high:.3f}")
