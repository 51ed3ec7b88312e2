"""`just plan`: its options and its help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def plan(
    *,
    streams: Annotated[int, typer.Option(min=1, max=10_000_000, help="Calls open at once at the busiest moment.")],
    report: Annotated[
        Path | None, typer.Option("--from", metavar="REPORT", help="Folder of a measured report.")
    ] = None,
    slo: Annotated[
        str | None,
        typer.Option(
            metavar="WHAT:SHARE:LIMIT",
            help="What every stream must get, e.g. `e2e:p95:1s`. By default what the report searched for, else that.",
        ),
    ] = None,
    price: Annotated[str | None, typer.Option(metavar="3.50/h", help="Of one GPU for an hour.")] = None,
    key: Annotated[
        list[Path] | None, typer.Option(help="Public key (PEM) of a signer you trust, as for `verify`.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The plan as JSON, for scripts.")] = False,
) -> None:
    """Plan a fleet from a measured report: replicas, GPUs and cost for so many calls, one replica to spare.

    The plan stands on what the report proves: the most streams that one replica is certified to hold. What the figures
    make likely, and what they rule out, stand beside it. The report is verified first; a partial or invalid one is
    refused.
    """
    from bench.explain.fleet.command import plan_and_show  # noqa: PLC0415  the heavy part

    raise typer.Exit(plan_and_show(report, streams=streams, slo=slo, price=price, keys=key or (), as_json=as_json))
