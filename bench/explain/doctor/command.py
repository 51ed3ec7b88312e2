"""`just doctor`: reads logs, prints what they show, and says it in the exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from bench.errors import Exit, UsageError
from bench.explain.doctor.as_json import as_json as to_json
from bench.explain.doctor.examine import Examined, Verdict, examine
from bench.explain.doctor.knowledge import knowledge
from bench.explain.doctor.show import catalogue, shown
from bench.explain.doctor.source import STDIN, size

if TYPE_CHECKING:
    from collections.abc import Sequence

_SHOW_PROGRESS_FROM: Final = 20_000_000
"""Bytes: smaller logs are read within two seconds."""

_CODES: Final = {
    Verdict.HEALTHY: Exit.OK,
    Verdict.DOWNGRADED: Exit.CLAIM_FAILED,
    Verdict.FAILED: Exit.CLAIM_FAILED,
    Verdict.UNKNOWN: Exit.INVALID,
    Verdict.NO_LOG: Exit.FAILURE,
}
_WORST_FIRST: Final = (Exit.INVALID, Exit.CLAIM_FAILED, Exit.FAILURE, Exit.OK)


def doctor(paths: Sequence[Path], *, as_json: bool = False) -> int:
    """Examines logs and prints the outcome.

    Args:
        paths: the logs; "-" is standard input.
        as_json: print one JSON object instead of text.

    Returns:
        The exit code: 0 all healthy, 3 a known problem, 4 a failure whose cause is not known, 1 no log of vLLM. Of
        several logs 4 counts before 3 before 1.

    Raises:
        UsageError: no log, or standard input twice.
    """
    if not paths:
        raise UsageError(
            "doctor needs a log.", remedy="E.g. just doctor engine.log, or docker logs NAME 2>&1 | just doctor -"
        )
    if sum(path == STDIN for path in paths) > 1:
        raise UsageError("standard input can be read once only.", remedy='Give "-" once.')
    console = Console(highlight=False)
    logs = []
    for path in paths:
        logs.append(_examine(path))
        if not as_json:
            console.print(shown(logs[-1]), soft_wrap=False)
    code = exit_code(logs)
    if as_json:
        sys.stdout.write(json.dumps(to_json(logs, code), ensure_ascii=True, indent=1) + "\n")
    elif len(logs) > 1:
        console.print(_summary(logs))
    return code


def show_catalogue() -> int:
    """Prints all that the doctor knows."""
    Console(highlight=False).print(catalogue(knowledge()))
    return Exit.OK


def exit_code(logs: Sequence[Examined]) -> int:
    """One exit code for all logs."""
    codes = {_CODES[log.verdict] for log in logs}
    return next(code for code in _WORST_FIRST if code in codes)


def _summary(logs: Sequence[Examined]) -> str:
    """Several logs are often those of one deployment: the one with the cause is named."""
    causes = [log for log in logs if any(d.outcome == "failed" for d in log.diagnoses)]
    echoes = [log for log in logs if any(d.outcome == "unexplained" for d in log.diagnoses)]
    if causes and echoes:
        names = ", ".join(str(log.path) for log in echoes)
        return f"\n{names}: only echoes of a failure. Its cause is in {causes[0].path}."
    counts = {verdict: sum(log.verdict is verdict for log in logs) for verdict in Verdict}
    return "\n" + ", ".join(f"{count} {verdict.value}" for verdict, count in counts.items() if count)


def _examine(path: Path) -> Examined:
    total = size(path)
    console = Console(stderr=True)
    if not console.is_terminal or total is None or total < _SHOW_PROGRESS_FROM:
        return examine(path)
    columns = (TextColumn("reading {task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(path.name, total=total)
        on_read: Callable[[int], None] = lambda count: progress.advance(task, count)  # noqa: E731  one expression
        return examine(path, on_read)
