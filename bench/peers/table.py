"""The rows as a table: for the terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from bench.peers.compare import Comparison
from bench.peers.row import Row
from bench.peers.tool import Triple

COLUMNS: Final = (
    "tool",
    "E2E error, ms",
    "TTFT error, ms",
    "wrong",
    "CPU, s",
    "MB",
    "in flight",
    "first, s",
)

CAPTION: Final = (
    "Errors of p50/p95/p99: the tool's own figure minus what the server did, over exactly the requests that the tool "
    "counts. Wrong: requests miscounted. CPU: seconds per 1,000 requests from start to end, in brackets only while it "
    "measured. MB: peak memory. Both of the whole process tree. In flight: what the server saw, of what was asked for. "
    "First: from the start of the process to its first request. Of several rounds each cell shows the worst."
)


def cells(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """One line of cells for the rows of one tool and one load: the worst of its rounds, or why there is nothing."""
    name = f"{rows[0].tool} {rows[0].version}".strip()
    for row in rows:
        if row.cannot is not None:
            return [(name, f"cannot: {row.cannot}")]
    measured = [row for row in rows if row.comparison is not None]
    lines: list[tuple[str, ...]] = [
        (name, f"failed in round {row.round}: {row.error}") for row in rows if row.error is not None
    ]
    if not measured:
        return lines
    comparisons = [row.comparison for row in measured if row.comparison is not None]
    asked = rows[0].asked
    first = (
        name,
        _errors(comparisons, lambda comparison: comparison.e2e_error_ms),
        _errors(comparisons, lambda comparison: comparison.ttft_error_ms),
        str(sum(comparison.miscounted for comparison in comparisons)),
        f"{_largest((row.cpu_s for row in measured), 1)} ({_largest((row.cpu_window_s for row in measured), 1)})",
        _largest((row.peak_mb for row in measured), 0),
        _in_flight([comparison.in_flight for comparison in comparisons], asked),
        _largest((row.first_s for row in measured), 1),
    )
    return [first, *lines]


def grouped(rows: Iterable[Row]) -> dict[str, dict[str, list[Row]]]:
    """The rows by load, then by tool, in order of appearance."""
    found: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        found.setdefault(row.load, {}).setdefault(row.tool, []).append(row)
    return found


def tables(rows: Iterable[Row]) -> list[RenderableType]:
    """For the terminal: a table a load, then a line for every tool that has no figures."""
    made: list[RenderableType] = []
    for load, by_tool in grouped(rows).items():
        table = Table(box=None, pad_edge=False, title=load, title_justify="left")
        for column in COLUMNS:
            table.add_column(column, overflow="fold")
        lines = [line for of_tool in by_tool.values() for line in cells(of_tool)]
        for line in lines:
            if len(line) == len(COLUMNS):
                table.add_row(*line)
        made += [table, *(Text(" ".join(line)) for line in lines if len(line) < len(COLUMNS))]
    return made


def markdown(rows: Sequence[Row], made_on: str, missed: Sequence[str]) -> str:
    """The same as Markdown, with the tools' notes and the goals that ours missed.

    Args:
        rows: all of them.
        made_on: when and on what.
        missed: see `bench.peers.goals.broken`.
    """
    lines = ["# Load generators against a server that knows the truth", "", made_on, ""]
    for load, by_tool in grouped(rows).items():
        lines += [f"## {load}", "", _line(COLUMNS), _line(["---"] * len(COLUMNS))]
        lines += [
            _line([*line, *[""] * (len(COLUMNS) - len(line))])
            for of_tool in by_tool.values()
            for line in cells(of_tool)
        ]
        lines.append("")
    notes = {row.tool: row.note for row in rows if row.note}
    lines += [CAPTION, "", *(f"- {tool}: {note}." for tool, note in notes.items()), ""]
    lines += ["Goals of our own client that were missed:", ""] if missed else ["Our own client met all of its goals."]
    return "\n".join([*lines, *(f"- {line}" for line in missed), ""])


def _line(parts: Sequence[str]) -> str:
    return "| " + " | ".join(part.replace("|", "/") for part in parts) + " |"


def _errors(comparisons: Sequence[Comparison], of: Callable[[Comparison], Triple]) -> str:
    worst = (max(values, key=abs) for values in zip(*map(of, comparisons), strict=True))
    return "/".join(f"{value:+.1f}" if abs(value) >= 1 else f"{value:+.2f}" for value in worst)


def _largest(values: Iterable[float | None], digits: int) -> str:
    known = [value for value in values if value is not None]
    return f"{max(known):,.{digits}f}" if known else "not known"


def _in_flight(values: Sequence[float], asked: int | None) -> str:
    if asked is None:
        return f"{max(values):.1f}"
    return f"{max(values, key=lambda value: abs(value - asked)):.1f} of {asked}"
