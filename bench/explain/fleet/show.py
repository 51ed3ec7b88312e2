"""A fleet's plan for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bench.report.render import words

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bench.explain.fleet.outcome import FleetPlan


def shown(plan: FleetPlan) -> RenderableType:
    """All of it. Titles are plain text: nothing in them is markup."""
    first = plan.cases[0]
    cost = "" if first.per_stream_hour is None else f", {first.per_stream_hour:.4g} a stream hour"
    head = (
        f"{plan.streams:,} streams: {words.plural(first.replicas, 'replica')} "
        f"({words.plural(first.gpus, plan.unit)}){cost}."
    )
    table = Table("one replica holds", box=None, pad_edge=False)
    for column in ("streams", "replicas", f"{plan.unit}s", "at random", "per hour", "per stream hour"):
        table.add_column(column, justify="right")
    for case in plan.cases:
        table.add_row(
            Text(f"{case.case}: {case.says}"),
            words.count(case.per_replica),
            words.count(case.replicas),
            words.count(case.gpus),
            words.count(case.at_random),
            words.ABSENT if case.per_hour is None else f"{case.per_hour:,.2f}",
            words.ABSENT if case.per_stream_hour is None else f"{case.per_stream_hour:.4g}",
        )
    return Padding(
        Group(
            Text(head, "bold"),
            Text(f"{plan.slo}, by {plan.source} of {plan.report}"),
            Text(plan.title, "dim"),
            Text(),
            table,
            Text(),
            *(Text(f"- {words.sentence(caveat)}", "dim") for caveat in plan.caveats),
        ),
        (1, 0, 0, 0),
    )
