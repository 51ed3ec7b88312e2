"""`just graphs`: its options and its help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def graphs(
    report: Annotated[Path, typer.Argument(help="A report's folder.")],
    *,
    count: Annotated[
        int | None,
        typer.Option(
            "--graphs", min=1, max=128, help="Sizes of the list to suggest; by default as few as are nearly as good."
        ),
    ] = None,
    miss_tokens: Annotated[
        float, typer.Option(min=0, help="A step without a graph is as bad as so many padded tokens.")
    ] = 1024.0,
    as_json: Annotated[bool, typer.Option("--json", help="The outcome as JSON, for scripts.")] = False,
) -> None:
    """Show which CUDA graphs a run used, and the capture list that its steps would have needed.

    Which sizes were replayed, how many tokens were padding, which sizes were never used, which steps ran without a
    graph; then the best list for these steps, found exactly, with its capture time and memory. Needs a run with
    `--set engine.flags.cudagraph_metrics=true`.
    """
    from bench.explain.graphs.command import graphs as show  # noqa: PLC0415  the heavy part

    raise typer.Exit(show(report, count=count, miss_tokens=miss_tokens, as_json=as_json))
