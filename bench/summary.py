"""What a run came to, on one screen: verdicts first, then the points, then what was wrong with the measurement."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bench.explain.search.show import lines
from bench.report.model import Check, ClaimVerdict, Estimate, PointReport, Report
from bench.report.render.same_answers import same_answers

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
    if report.valid and broken:
        parts.append(
            Text("Rules were broken at points that the answer does not rest on; the report names them.", "dim")
        )
    elif broken:
        parts.append(Text("INVALID: these figures prove nothing.", style="bold red"))
        parts += _broken(broken, report)
    if report.searches:
        parts += [Text(), *lines(report.searches)]
    else:
        parts += [Text(), _points(report.points), Text(), *_claims(report.claims)]
    if said := same_answers(report):
        parts += [Text(), Text(said, style="dim" if report.valid else "")]
    parts += [Text(), Text.assemble(("report  ", "dim"), str(folder / "report.html"))]
    parts.append(Text.assemble(("verify  ", "dim"), f"just verify {folder}"))
    return Padding(Group(*parts), (1, 0, 0, 0))


def _points(points: tuple[PointReport, ...]) -> Table:
    """Fits into 80 columns; seconds throughout."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), title="E2E and TTFT in seconds", title_justify="left")
    table.add_column("point", no_wrap=True)
    for title in ("requests", "p50", "p90", "p95", "interval", "TTFT p95", "hits", "accept"):
        table.add_column(title, justify="right", no_wrap=True, min_width=len(title))
    for point in points:
        failed = sum(point.failures.values())
        hits = point.prefix_cache.measured_rate
        table.add_row(
            (point.label if point.concurrent is None else f"{point.concurrent} in flight")
            + ("" if point.complete else "*"),
            Text(str(point.requests)) + Text(f" ({failed} failed)" if failed else "", style="red"),
            _seconds(point.e2e.p50),
            _seconds(point.e2e.p90),
            Text(_seconds(point.e2e.p95), style="bold"),
            _interval(point.e2e.p95),
            _seconds(point.ttft.p95),
            "--" if hits is None else f"{hits:.0%}",
            "--" if point.speculation is None else f"{point.speculation.acceptance_length:.2f}",
        )
    if not all(point.complete for point in points):
        table.caption, table.caption_justify = "* cut off", "left"
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


def _broken(broken: list[Check], report: Report) -> list[RenderableType]:
    """One line per rule: where it was broken first, and where else."""
    by_rule: dict[str, list[Check]] = {}
    for check in broken:
        by_rule.setdefault(check.rule, []).append(check)
    lines: list[RenderableType] = []
    for rule, checks in by_rule.items():
        places = ", ".join(report.points[check.point].label for check in checks if check.point is not None)
        first = f"{rule}{f' ({places})' if places else ''}: {checks[0].measured}, expected {checks[0].expected}."
        lines.append(Text.assemble(("  broken  ", "red"), first, (f" {checks[0].advice}", "dim")))
    return lines


def _seconds(estimate: Estimate) -> str:
    if estimate.among_failures:
        return "failed"
    return "--" if estimate.value is None else f"{estimate.value:.3f}"


def _interval(estimate: Estimate) -> str:
    if estimate.low is None:
        return "--"
    return f"{estimate.low:.2f}-" + ("--" if estimate.high is None else f"{estimate.high:.2f}")
