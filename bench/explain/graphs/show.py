"""Graph use and the suggested list, on a terminal and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from bench.report.render import words

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bench.explain.graphs.analysis import Analysis, Choice
    from bench.explain.graphs.coverage import Coverage

SCHEMA: Final = "streamproof.graphs/1"
_MOST_ROWS: Final = 20

NO_GRAPHS: Final = (
    "This engine runs without CUDA graphs (a CPU, enforce_eager, or cudagraph_mode NONE): the lists below are what a "
    "GPU would have needed for these steps."
)


def shown(analysis: Analysis) -> RenderableType:
    """The analysis for people."""
    coverage = analysis.coverage
    head = Text.assemble(("graphs ", "dim"), (analysis.target, "bold"), f", {coverage.mode}")
    parts: list[RenderableType] = [head, Text(summary(coverage))]
    if any(use.steps for use in coverage.sizes):
        parts += [Text(), _uses(coverage)]
    if coverage.mode == "NONE":
        parts.append(Text(NO_GRAPHS))
    if coverage.unused:
        parts.append(Text(f"never used: {', '.join(map(words.count, coverage.unused))}"))
    if coverage.without:
        parts += [Text(), _without(coverage)]
    parts += [
        Text(),
        Text("The best lists for these steps", style="bold"),
        _choices(analysis),
        Text(f"a step without a graph counts as {analysis.miss_tokens:g} padded tokens (--miss-tokens)", style="dim"),
        Text(f"capture time: {analysis.capture_source}; memory: {analysis.pool_source}", style="dim"),
        Text(),
        Text("Suggested", style="bold"),
        Text(f"cudagraph_capture_sizes = [{', '.join(map(str, analysis.suggested.list_.sizes))}]"),
        Text("It fits the steps that were seen; measure again with it before it replaces anything.", style="dim"),
    ]
    return Group(*parts)


def summary(coverage: Coverage) -> str:
    """The use of all graphs in one sentence or two."""
    left_out = f", {coverage.left_out} outside left out" if coverage.left_out else ""
    return (
        f"{words.plural(coverage.steps, 'step')} in {words.plural(coverage.tables, 'table')} that lie in the measured "
        f"windows ({coverage.covered_s:g} of {coverage.window_s:.0f} s{left_out}): {words.percent(coverage.covered)} "
        f"replayed a graph, padding was {words.percent(coverage.padding)} of the tokens."
    )


def as_data(analysis: Analysis) -> dict[str, Any]:
    """The analysis for scripts."""
    coverage = analysis.coverage
    return {
        "schema": SCHEMA,
        "target": analysis.target,
        "mode": coverage.mode,
        "steps": coverage.steps,
        "covered": coverage.covered,
        "tokens": coverage.tokens,
        "padded_tokens": coverage.padded,
        "tables": coverage.tables,
        "covered_s": coverage.covered_s,
        "window_s": coverage.window_s,
        "sizes": [
            {"size": u.size, "full": u.full, "piecewise": u.piecewise, "tokens": u.tokens, "padded": u.padded}
            for u in coverage.sizes
        ],
        "unused": list(coverage.unused),
        "without": {str(tokens): count for tokens, count in coverage.without.items()},
        "now": _choice(analysis.now),
        "suggested": _choice(analysis.suggested),
        "miss_tokens": analysis.miss_tokens,
        "others": [_choice(choice) for choice in analysis.others],
        "capture_source": analysis.capture_source,
        "pool_source": analysis.pool_source,
    }


def _choice(choice: Choice) -> dict[str, Any]:
    found = choice.list_
    return {
        "sizes": list(found.sizes),
        "covered": found.covered,
        "padded_tokens": found.padded,
        "missed_steps": found.missed,
        "cost_tokens": found.cost,
        "graphs": choice.captures.graphs if choice.captures else None,
        "capture_s": choice.seconds if choice.captures else None,
        "pool_gib": choice.pool_gib,
    }


def _uses(coverage: Coverage) -> Table:
    table = Table(
        "size", "whole", "in pieces", "tokens", "padded", box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False
    )
    for column in table.columns:
        column.justify = "right"
    for use in coverage.sizes:
        if use.steps:
            padded = f"{use.padded:,} ({words.percent(use.padded / use.tokens if use.tokens else 0.0)})"
            table.add_row(f"{use.size:,}", f"{use.full:,}", f"{use.piecewise:,}", f"{use.tokens:,}", padded)
    return table


def _without(coverage: Coverage) -> Text:
    worst = sorted(coverage.without.items(), key=lambda item: (-item[1], item[0]))
    named = ", ".join(f"{tokens:,} ({count:,})" for tokens, count in worst[:_MOST_ROWS])
    rest = f", and {len(worst) - _MOST_ROWS:,} more sizes" if len(worst) > _MOST_ROWS else ""
    return Text(f"without a graph, tokens of a step (steps): {named}{rest}")


def _choices(analysis: Analysis) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("list")
    for name in ("sizes", "largest", "covered", "padding", "graphs", "capture", "pool"):
        table.add_column(name, justify="right")
    rows = [("as captured", analysis.now), ("suggested", analysis.suggested), *(("", c) for c in analysis.others)]
    for name, choice in rows:
        found = choice.list_
        table.add_row(
            name,
            str(len(found.sizes)),
            words.count(found.sizes[-1] if found.sizes else 0),
            words.percent(found.covered),
            words.percent(found.padding),
            str(choice.captures.graphs) if choice.captures else words.ABSENT,
            words.seconds(choice.seconds) if choice.captures else words.ABSENT,
            words.ABSENT if choice.pool_gib is None else f"{choice.pool_gib:.2f} GiB",
        )
    return table
