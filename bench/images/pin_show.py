"""Tells what became of the pins: loudly what was contradicted or moved, in short what is as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.markup import escape
from rich.padding import Padding

from bench.images.pin_finding import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from bench.images.pin_finding import Finding

_STYLES: Final = {
    State.CONTRADICTED: "bold red",
    State.CHANGED: "bold yellow",
    State.NOT_CHECKED: "magenta",
    State.CONFIRMED: "green",
}


def show(findings: Sequence[Finding], console: Console, *, written: bool) -> None:
    """Prints every finding and a line that counts them.

    Args:
        findings: in any order.
        console: where to.
        written: whether the files were changed.
    """
    for finding in findings:
        _show(finding, console)
    counts = ((state, sum(finding.state is state for finding in findings)) for state in State)
    said = ", ".join(f"[{_STYLES[state]}]{count} {state}[/]" for state, count in counts if count)
    console.print(f"{said}{'' if written else '; nothing was written'}")


def _show(finding: Finding, console: Console) -> None:
    style = _STYLES[finding.state]
    console.print(
        f"[{style}]{finding.state}[/]  [bold]{escape(finding.name)}[/]  {escape(finding.what)}", soft_wrap=True
    )
    for change in finding.changes:
        console.print(f"    {escape(change.key)}", style="bold")
        if change.old is not None:
            console.print(f"      - {escape(change.old)}", style="red", soft_wrap=True)
        if change.new is not None:
            console.print(f"      + {escape(change.new)}", style="green", soft_wrap=True)
    if finding.why:
        console.print(Padding(escape(finding.why), (0, 0, 0, 4)), style=style)
    if finding.remedy:
        console.print(Padding(escape(finding.remedy), (0, 0, 0, 4)))
    if finding.state in (State.CONTRADICTED, State.CHANGED) and finding.recipes:
        console.print(Padding(f"what it touches: {', '.join(finding.recipes)}", (0, 0, 0, 4)), style=style)
    if finding.seen:
        console.print(Padding(escape("; ".join(finding.seen)), (0, 0, 0, 4)), style="dim")
