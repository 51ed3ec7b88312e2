"""`just steps`: its options and its help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def steps(
    report: Annotated[Path, typer.Argument(help="A report's folder.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="The outcome as JSON, for scripts.")] = False,
) -> None:
    """Show where the time of a reply goes, from a report's own records: no profiler, no GPU.

    The gaps between the chunks of a streamed reply are the engine's steps. Under load there are two kinds: **short**
    ones only decode; **long** ones also compute somebody's prompt, while every reply in flight waits. For each point:
    the mean reply, and the slowest twentieth, taken apart into the first token, long gaps, short gaps and the rest,
    which add up to E2E; how many of each a reply waits for, and how long one takes; the longest standstill; the floors
    of the card beside it.

    Kinds are told apart by the gaps alone, and only where a valley lies between them: a smooth server has one kind.
    **rare gaps** are far longer ones that came on fewer than ten occasions, such as a compilation. **together** are
    chunks that came at once: their steps are in the gap before them.

    What chunks do not tell: whether GPU or host took the time (`graphs` and `preflight` say where to look), what a
    proxy or a server that sends several steps at once did to them, and whose prompt it was. Runs of a point are taken
    together. Files must be as they were signed; who signed them, and whether all figures follow, `verify` says.

    Exit codes: 0 shown; 1 the report was changed, or is none that can be read; 2 wrong usage.
    """
    from bench.explain.steps.command import steps as show  # noqa: PLC0415  the heavy part

    raise typer.Exit(show(report, as_json=as_json))
