"""Where the time of a reply goes, on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.table import Table
from rich.text import Text

from bench.explain.steps import words as says
from bench.report.render import words
from bench.report.verify_text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from bench.explain.steps.analysis import Analysis, PointSteps
    from bench.explain.steps.parts import Name, Part

CELLS: Final = 60
"""Of the bar, on a terminal of any width."""

LOOKS: Final[dict[Name, tuple[str, str]]] = {
    "client": ("·", "dim"),
    "first token": ("▒", "cyan"),
    "long": ("█", "magenta"),
    "short": ("░", "green"),
    "gaps": ("░", "green"),
    "rare": ("▓", "red"),
    "together": ("·", "dim"),
    "end": ("·", "dim"),
}
"""Letter and colour of each part in the bar: whoever sees no colours tells them apart by the letter."""


def shown(analysis: Analysis) -> RenderableType:
    """The analysis for people."""
    parts: list[RenderableType] = [
        Text.assemble(("steps ", "dim"), (printable(analysis.target, 80), "bold")),
        Text(printable(analysis.title, 300), "dim"),
    ]
    if not analysis.valid:
        parts.append(Text("This measurement is invalid; its report says why.", "yellow"))
    for point in analysis.points:
        parts += [Text(), Text(printable(says.headline(point), 300), "bold")]
        if point.parts:
            parts += [bar(point.parts), _table(point)]
        parts += [Text(note) for note in says.notes(point)]
    if not analysis.points:
        parts.append(Text("No point was begun."))
    return Group(*parts, Text(), *(Text(printable(line, 400), "dim") for line in says.close(analysis)))


def bar(parts: Sequence[Part]) -> Text:
    """The parts beside each other, `CELLS` wide: rounded so that they fill it (largest remainders)."""
    exact = [max(0.0, part.share) * CELLS for part in parts]
    cells = [int(each) for each in exact]
    by_remainder = sorted(range(len(parts)), key=lambda place: cells[place] - exact[place])
    for place in by_remainder[: max(0, CELLS - sum(cells))]:
        cells[place] += 1
    text = Text()
    for part, width in zip(parts, cells, strict=True):
        letter, style = LOOKS[part.name]
        text.append(letter * width, style)
    return text


def _table(point: PointSteps) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("")
    for name in ("mean", "share", "a reply", "p50", "p95", "slowest 5 %"):
        table.add_column(name, justify="right")
    for part in point.parts:
        letter, style = LOOKS[part.name]
        table.add_row(
            Text.assemble((letter, style), f" {says.NAMES[part.name]}"),
            words.seconds(part.mean_s),
            words.percent(part.share),
            "" if part.count is None else words.number(part.count),
            words.seconds(part.p50_s),
            words.seconds(part.p95_s),
            words.seconds(part.slowest_s),
        )
    slowest = words.seconds(point.slowest_e2e_s)
    table.add_row("  E2E", words.seconds(point.e2e_s), words.percent(1.0), "", "", "", slowest, style="bold")
    return table
