"""A plan on a terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from bench.explain.preflight.show_blocks import blocks_data, blocks_shown
from bench.explain.preflight.verdicts import worst
from bench.report.render import words

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bench.explain.preflight.blocks import Blocks
    from bench.explain.preflight.plan import Basis, Line, Verdict

SCHEMA: Final = "streamproof.preflight/1"
_STYLES: Final = {"fits": "green", "tight": "yellow", "cannot": "bold red"}


@dataclass(frozen=True, slots=True)
class Section:
    """Lines under one heading."""

    title: str
    lines: tuple[Line, ...]


def shown(
    basis: Basis,
    sections: Sequence[Section],
    verdicts: Sequence[Verdict],
    against: str | None,
    blocks: Blocks | None = None,
) -> RenderableType:
    """The plan for people.

    Args:
        basis: what was planned.
        sections: its lines.
        verdicts: on it.
        against: name of the measured start beside it; None where there is none.
        blocks: that were tried; None where nobody asked.
    """
    count = basis.settings.tensor * basis.settings.data * basis.recipe.replicas
    cards = "the CPU" if basis.card is None else f"{count} x {basis.card.match}" if count > 1 else basis.card.match
    head = Text.assemble(
        ("preflight ", "dim"), (basis.recipe.target, "bold"), f" on {cards}, vLLM {basis.settings.release.version}"
    )
    beside = against or "no measured start of this engine is here (name one with --against)"
    parts: list[RenderableType] = [head, Text(f"measured: {beside}", style="dim")]
    for section in sections:
        if section.lines:
            parts += [Text(), Text(section.title, style="bold"), _table(section.lines, measured=against is not None)]
    if blocks is not None:
        parts += [Text(), blocks_shown(blocks)]
    parts += [Text(), Text("Verdicts", style="bold"), _verdicts(verdicts)]
    overall = worst(verdicts)
    parts += [Text(), Text.assemble("The plan: ", (overall, _STYLES[overall]))]
    return Group(*parts)


def as_data(
    basis: Basis,
    sections: Sequence[Section],
    verdicts: Sequence[Verdict],
    against: str | None,
    blocks: Blocks | None = None,
) -> dict[str, Any]:
    """The plan for scripts: values in bytes, tokens, seconds, shares and steps; arguments as above."""
    return {
        "schema": SCHEMA,
        "target": basis.recipe.target,
        "gpu": basis.card.match if basis.card else None,
        "engine_version": basis.settings.release.version,
        "verdict": worst(verdicts),
        "against": against,
        "lines": [
            {
                "section": section.title,
                "key": line.key,
                "label": line.label,
                "value": line.value,
                "unit": line.unit,
                "formula": line.how,
                "source": line.source,
                "measured": line.measured,
                "error": line.error,
            }
            for section in sections
            for line in section.lines
        ],
        "blocks": None if blocks is None else blocks_data(blocks),
        "verdicts": [{"name": v.name, "verdict": v.verdict, "why": v.why, "change": v.change} for v in verdicts],
    }


def _table(lines: Sequence[Line], *, measured: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), show_edge=False)
    table.add_column("what", overflow="fold", ratio=3)
    table.add_column("planned", justify="right", no_wrap=True)
    if measured:
        table.add_column("measured", justify="right", no_wrap=True)
    table.add_column("how, and from where", overflow="fold", ratio=6)
    above = ""
    for line in lines:
        cells: list[str | Text] = [Text(line.label), _value(line.value, line)]
        if measured:
            cells.append(_measured(line))
        # A source that is the same as above is said once.
        source = f"\n{line.source}" if line.source != above else ""
        table.add_row(*cells, Text.assemble(line.how, (source, "dim")))
        above = line.source
    return table


def _value(value: float | None, line: Line) -> str:
    if value is None:
        return words.ABSENT
    match line.unit:
        case "bytes":
            return words.bytes_(value) if value else "0"
        case "seconds":
            return words.seconds(value)
        case "share":
            return words.percent(value)
        case "steps":
            return f"{value:,.1f}"
        case _:
            return words.count(round(value))


def _measured(line: Line) -> str:
    if line.measured is None:
        return ""
    error = line.error
    if line.floor and line.value:
        return f"{_value(line.measured, line)}\n{line.measured / line.value:.0f} x the floor"
    if error is None:
        return _value(line.measured, line)
    return f"{_value(line.measured, line)}\n{'exact' if error == 0 else f'{error * 100:+.1f} %'}"


def _verdicts(verdicts: Sequence[Verdict]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", ratio=2)
    table.add_column(overflow="fold", ratio=7)
    for verdict in verdicts:
        why = Text(verdict.why)
        if verdict.change:
            why.append(f"\nchange: {verdict.change}", style="bold")
        table.add_row(Text(verdict.verdict, style=_STYLES[verdict.verdict]), Text(verdict.name), why)
    return table
