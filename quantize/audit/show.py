"""`just quantize audit`: the table for people, and the bar while it works."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.table import Table
from rich.text import Text

from quantize.audit.model import NAMED, Audit, Figure, Gate, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console, RenderableType

    from quantize.audit.work import Progress as Step

SHOWN: Final = 6
"""Offenders of a gate in the table; `--json` names more."""
_STYLES: Final = {Verdict.PASSED: "green", Verdict.FAILED: "bold red", Verdict.NOT_CHECKED: "yellow"}


def shown(audit: Audit) -> RenderableType:
    """The outcome for people; of another format than NVFP4 only its files.

    What comes from the checkpoint is plain text: nothing in it is markup.
    """
    table = Table("", "gate", "verdict", "what was found", box=None, pad_edge=False, padding=(0, 1))
    for gate in audit.gates if audit.format.is_nvfp4 else audit.gates[:1]:
        verdict = Text(gate.verdict, style=_STYLES[gate.verdict], overflow="fold")
        table.add_row(str(gate.number), gate.name, verdict, Group(*_found(gate)))
    return Group(table, Text(), *_summary(audit))


def _found(gate: Gate) -> Iterator[Text]:
    yield Text(gate.says, overflow="fold")
    if gate.figures:
        figures = ", ".join(f"{name} {_figure(value)}" for name, value in gate.figures.items())
        yield Text(figures, "dim", overflow="fold")
    for offender in gate.offenders[:SHOWN]:
        yield Text.assemble(("  ", ""), (offender.name, "bold"), f" {offender.reason}", overflow="fold")
    more = gate.offending - min(len(gate.offenders), SHOWN)
    if gate.offenders and more > 0:
        yield Text(f"  and {more:,} more", "dim")
    for note in gate.notes:
        yield Text(f"  note: {note}", "cyan", overflow="fold")


def _figure(value: Figure) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value if value is not None else "unknown")


def _summary(audit: Audit) -> Iterator[Text]:
    what = f"{audit.checkpoint}: {audit.format.says}" + (f" ({audit.family})" if audit.family else "")
    left_out = [gate for gate in audit.gates if gate.verdict is Verdict.NOT_CHECKED]
    if not audit.format.is_nvfp4:
        yield Text.assemble(("NOT AUDITED  ", "bold red"), what)
        return
    if audit.failed:
        names = ", ".join(gate.name for gate in audit.failed)
        yield Text.assemble(("FAILED  ", "bold red"), what)
        yield Text(f"  failed: {names}")
    elif audit.passed:
        yield Text.assemble(("PASSED  ", "bold green"), what)
    else:
        yield Text.assemble(("NOT PASSED  ", "bold yellow"), what)
    for gate in left_out:
        yield Text(f"  not checked: {gate.name}: {gate.says}", "yellow")
    if any(gate.offending > NAMED for gate in audit.failed):
        yield Text(f"  A gate names its first {NAMED} offenders in JSON and counts all.", "dim")


@contextmanager
def progress_bar(console: Console) -> Iterator[Callable[[Step], None] | None]:
    """A bar that is told how far the audit is; none where nobody watches."""
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("  audit"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("audit", total=None)
        yield lambda step: bar.update(task, completed=step.done_bytes, total=step.total_bytes)
