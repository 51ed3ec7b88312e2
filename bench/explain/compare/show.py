"""A comparison for the terminal. What comes from a report is plain text: nothing in it is markup."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bench.explain.compare import words as says
from bench.report.render import words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from bench.explain.compare.outcome import Comparison, Pair

_STYLES: Final = {"good": "bold green", "bad": "bold red", "warn": "bold yellow", "plain": "bold"}
MOST_DIFFERENCES: Final = 24
"""Lines of what differs; the page and `--json` have all."""


def shown(comparison: Comparison) -> RenderableType:
    """All of it."""
    tone, text = says.headline(comparison)
    parts: list[RenderableType] = [Text(text, _STYLES[tone]), _side("base", comparison.base)]
    for number, pair in enumerate(comparison.pairs, start=2):
        parts += [Text(), *_pair(pair, number)]
    return Padding(Group(*parts), (1, 0, 0, 0))


def _side(name: str, facts: object) -> Text:
    folder, title, runs = (getattr(facts, field) for field in ("folder", "title", "runs"))
    return Text.assemble((f"{name:<6}", "bold"), f"{folder}\n      {title}, {words.plural(runs, 'engine start')}")


def _pair(pair: Pair, number: int) -> Iterator[RenderableType]:
    yield _side(f"{number}.", pair.other)
    yield Text(f"      {says.about(pair)}", "dim")
    for note in pair.notes:
        yield Text(words.sentence(note), "yellow")
    for text in pair.waived:
        yield Text(f"Compared anyway: {text}", "yellow")
    yield from _differences(pair)
    yield from _effects(pair)
    for line in pair.left_out:
        yield Text(f"not in both: {line}", "dim")
    for gated in pair.gates:
        head = (f"{gated.verdict}  ", _STYLES[says.TONES[gated.verdict]])
        yield Text.assemble(head, f"{gated.gate} at {gated.point}: {gated.reason}")
    for claim in pair.claims:
        head = (f"{claim.verdict}  ", _STYLES[says.TONES[claim.verdict]])
        yield Text.assemble(head, f"{claim.id}: {claim.asks}; {claim.reason}")
        yield Text(f'  "{claim.quote}"', "dim")


def _differences(pair: Pair) -> Iterator[RenderableType]:
    if not pair.differences:
        return
    table = Table("differs", "base", f"{'other'}", box=None, pad_edge=False, header_style="dim")
    for each in pair.differences[:MOST_DIFFERENCES]:
        table.add_row(Text(each.key), Text(each.base or words.ABSENT), Text(each.other or words.ABSENT))
    yield table
    if (more := len(pair.differences) - MOST_DIFFERENCES) > 0:
        yield Text(f"and {words.plural(more, 'more value')}: --html or --json", "dim")


def _effects(pair: Pair) -> Iterator[RenderableType]:
    for point in pair.points:
        table = Table(point.label, "base", "other", "change", "95 % interval", box=None, pad_edge=False)
        for column in table.columns[1:4]:
            column.justify = "right"
        for effect in point.effects:
            sure = effect.low is not None and effect.high is not None and (effect.low > 1 or effect.high < 1)
            table.add_row(
                effect.name,
                says.figure(effect, effect.base),
                says.figure(effect, effect.other),
                Text(says.change(effect.ratio), "bold" if sure else ""),
                says.change_interval(effect),
            )
        failed = point.failures
        base, other = says.failures(failed.base, failed.base_n), says.failures(failed.other, failed.other_n)
        table.add_row("failed", base, other, "", "")
        yield table
