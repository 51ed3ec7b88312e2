"""`just doctor` for people: the verdict first, then the lines that show it, then what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bench.explain.doctor.examine import Verdict, verdict_of
from bench.explain.doctor.releases import range_words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType

    from bench.explain.doctor.diagnose import Diagnosis, Finding, Remedy
    from bench.explain.doctor.examine import Examined
    from bench.explain.doctor.knowledge import Knowledge
    from bench.explain.doctor.start import Quote

_STYLES: Final = {
    Verdict.HEALTHY: ("HEALTHY", "bold green"),
    Verdict.DOWNGRADED: ("DOWNGRADED", "bold yellow"),
    Verdict.FAILED: ("FAILED", "bold red"),
    Verdict.UNKNOWN: ("UNKNOWN", "bold magenta"),
    Verdict.NO_LOG: ("NO LOG", "bold red"),
}
_WIDEST_QUOTE: Final = 220
"""Characters shown of a quoted line; --json has more of it."""
_LABEL: Final = 12


def shown(log: Examined) -> RenderableType:
    """One log. Nothing that comes from it is markup."""
    if log.verdict is Verdict.NO_LOG:
        return Padding(
            Group(_head(log.verdict, str(log.path)), _rows([("", log.problem), ("", log.advice)])), (1, 0, 0, 0)
        )
    parts: list[RenderableType] = []
    for diagnosis, alike in _grouped(log.diagnoses):
        where = str(log.path) if log.starts == 1 else f"{log.path}, {_which(diagnosis, alike, log.starts)}"
        parts += [_start(diagnosis, where)]
    if log.starts > len(log.diagnoses):
        parts.append(Text(f"\n  {log.starts - len(log.diagnoses)} more starts between these are not shown.", "dim"))
    return Group(*parts)


def catalogue(known: Knowledge) -> RenderableType:
    """All that the doctor knows, family by family."""
    table = Table("", "stage", "what", "see", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    family = ""
    for entry in known.entries:
        if known.families[entry.id] != family:
            family = known.families[entry.id]
            table.add_row("", "", Text(f"\n{family}", "bold"), "")
        table.add_row(entry.kind, entry.stage, Text(entry.title), Text(entry.references[0], "dim"))
    return table


def _start(diagnosis: Diagnosis, where: str) -> RenderableType:
    verdict = verdict_of(diagnosis)
    parts: list[RenderableType] = [_head(verdict, where)]
    if diagnosis.finding is not None:
        parts += _known(diagnosis, diagnosis.finding)
    elif diagnosis.failed:
        parts += _unknown(diagnosis)
    else:
        parts.append(_rows([("", _served(diagnosis)), ("vLLM", diagnosis.version or "version not in the log")]))
    if diagnosis.downgrades:
        parts.append(Text("\n  Worse than was asked for, in silence", "bold yellow"))
        parts += [_downgrade(finding) for finding in diagnosis.downgrades]
    if diagnosis.notes:
        parts.append(Text("\n  Worth knowing (no fault)", "bold"))
        parts += [
            _rows([(_line(finding), f"{finding.title}. {finding.cause}")], dim=True) for finding in diagnosis.notes
        ]
    return Padding(Group(*parts), (1, 0, 0, 0))


def _known(diagnosis: Diagnosis, finding: Finding) -> list[RenderableType]:
    stage = diagnosis.stage
    if diagnosis.reached not in (stage, "ready"):
        stage += f"  (the log had reached {diagnosis.reached})"
    rows = [
        ("", finding.title),
        ("stage", stage),
        ("vLLM", diagnosis.version or "version not in the log: the fixes of all releases are below"),
        ("allocation", diagnosis.allocation or ""),
        ("cause", finding.cause),
        *_labelled("it is not", finding.is_not),
    ]
    return [
        _rows(rows),
        Text("\n  Evidence", "bold"),
        _quoted(finding.evidence),
        Text("\n  What to do", "bold"),
        _remedies(finding.remedies, any_release=diagnosis.version is None),
        Text(),
        _rows([("see", ", ".join(finding.entry.references))], dim=True),
    ]


def _unknown(diagnosis: Diagnosis) -> list[RenderableType]:
    if diagnosis.outcome == "failed":
        says = "The engine failed, and no known cause fits. The lines below name the failure."
    elif diagnosis.outcome == "unexplained":
        says = (
            "The engine failed, and only echoes of the failure are in this log. Its cause is in the part before, or in "
            "the log of another process, rank or node."
        )
    else:
        says = "The log ends before the engine was ready, and no failure is in it."
        says += " It was told to stop." if diagnosis.stopped else ""
    rows = [
        ("", says),
        ("stage", f"{diagnosis.stage}  (the last one that the log announces: {diagnosis.reached})"),
        ("vLLM", diagnosis.version or "version not in the log"),
        ("allocation", diagnosis.allocation or ""),
        ("where", _innermost(diagnosis)),
    ]
    return [_rows(rows), Text("\n  The lines to look at", "bold"), _quoted(diagnosis.quotes)]


def _innermost(diagnosis: Diagnosis) -> str:
    """The functions in which an unknown failure happened, the innermost last."""
    functions = diagnosis.failure.failure.functions if diagnosis.failure else ()
    pairs = list(zip(functions[0::2], functions[1::2], strict=True))
    return " > ".join(f"{function} ({file})" for file, function in pairs[-3:])


def _downgrade(finding: Finding) -> RenderableType:
    return Group(
        _rows([("", finding.title), ("cause", finding.cause), ("costs", finding.consequence or "")]),
        _quoted(finding.evidence[:3]),
        _remedies(finding.remedies, any_release=False),
        _rows([("see", ", ".join(finding.entry.references))], dim=True),
        Text(),
    )


def _served(diagnosis: Diagnosis) -> str:
    answered = int(float(diagnosis.values.get("served-requests", 0)))
    served = f"The engine started and answered {answered:,} requests." if answered else "The engine started."
    if diagnosis.failed_requests:
        first = diagnosis.failed_requests[0].failure
        served += (
            f" {len(diagnosis.failed_requests)} requests failed; it lived on (the first: line {first.first_line})."
        )
    return served


def _head(verdict: Verdict, where: str) -> Text:
    word, style = _STYLES[verdict]
    return Text.assemble((word, style), "  ", (where, "bold"))


def _rows(rows: Iterable[tuple[str, str]], *, dim: bool = False) -> RenderableType:
    table = Table.grid(padding=(0, 1))
    table.add_column(width=_LABEL, style="dim")
    table.add_column(overflow="fold", style="dim" if dim else "")
    for label, text in rows:
        if text:
            table.add_row(Text(label), Text(text))
    return Padding(table, (0, 0, 0, 2))


def _quoted(quotes: Iterable[Quote]) -> RenderableType:
    table = Table.grid(padding=(0, 1))
    table.add_column(width=_LABEL, justify="right", style="cyan")
    table.add_column(overflow="fold")
    for quote in quotes:
        text = quote.text.split("\n")[0]
        text = text if len(text) <= _WIDEST_QUOTE else text[: _WIDEST_QUOTE - 1] + "…"
        times = f"  ({quote.count} such lines)" if quote.count > 1 else ""
        table.add_row(Text(f"line {quote.line}"), Text.assemble(text, (times, "dim")))
    return Padding(table, (0, 0, 0, 2))


def _remedies(remedies: Iterable[Remedy], *, any_release: bool) -> RenderableType:
    table = Table.grid(padding=(0, 1))
    table.add_column(width=_LABEL)
    table.add_column(overflow="fold")
    for number, remedy in enumerate(remedies, start=1):
        release = range_words(remedy.fix.since, remedy.fix.before) if any_release else ""
        table.add_row(Text(f"{number}.", justify="right"), Text((f"{release}: " if release else "") + remedy.say))
        for command in remedy.run:
            table.add_row("", Text(f"  {command}", "green"))
    return Padding(table, (0, 0, 0, 2))


def _line(finding: Finding) -> str:
    return f"line {finding.evidence[0].line}" if finding.evidence else ""


def _labelled(label: str, texts: Iterable[str]) -> list[tuple[str, str]]:
    return [(label if number == 0 else "", text) for number, text in enumerate(texts)]


def _grouped(diagnoses: Iterable[Diagnosis]) -> list[tuple[Diagnosis, list[int]]]:
    """Starts that came to the same are shown once: the last of them, with the numbers of all."""
    groups: dict[tuple[object, ...], tuple[Diagnosis, list[int]]] = {}
    for diagnosis in diagnoses:
        found = diagnosis.finding.entry.id if diagnosis.finding else ""
        text = diagnosis.failure.failure.text[:80] if diagnosis.failure and not found else ""
        downgrades = tuple(finding.entry.id for finding in diagnosis.downgrades)
        key = (verdict_of(diagnosis), found, text, diagnosis.stage, downgrades)
        numbers = groups[key][1] if key in groups else []
        groups[key] = (diagnosis, [*numbers, diagnosis.number])
    return list(groups.values())


def _which(diagnosis: Diagnosis, alike: list[int], starts: int) -> str:
    names = ", ".join(str(number) for number in alike)
    start = f"start {names} of {starts}" if len(alike) == 1 else f"starts {names} of {starts}, all alike; the last"
    return f"{start} (lines {diagnosis.first_line} to {diagnosis.last_line})"
