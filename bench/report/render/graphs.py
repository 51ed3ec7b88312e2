"""How a run used its CUDA graphs, for the page: rows of text from the engine's tables over the measured windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.explain.graphs.coverage import DEFAULT_INTERVAL_S, Window, coverage_of
from bench.observe.observations import GraphTable
from bench.report.render import words
from bench.report.render.figure_graphs import graphs_figure

if TYPE_CHECKING:
    from markupsafe import Markup

    from bench.report.evidence import Evidence
    from bench.report.model import Report

_WITHOUT_SHOWN: Final = 12
"""Sizes of steps without a graph that are named; the rest are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphUse:
    """What the page says.

    Attributes:
        figure: a bar a graph.
        summary: in words.
        mode: that the engine was set to.
        rows: (size, steps that replayed it whole, in pieces, tokens, padded tokens, padding as a share).
        unused: sizes that no step replayed, as text; empty where there are none.
        without: steps without a graph, as text; empty where there are none.
    """

    figure: Markup
    summary: str
    mode: str
    rows: tuple[tuple[str, str, str, str, str, str], ...]
    unused: str
    without: str


def graph_use(report: Report, evidence: Evidence) -> GraphUse | None:
    """The section's content; None where no table of the engine lies in a measured window."""
    tables = [seen for seen in evidence.observations if isinstance(seen, GraphTable)]
    windows = [
        Window(run=window.run, start_s=window.start_s, end_s=window.end_s)
        for point in report.points
        for window in point.runs
    ]
    coverage = coverage_of(tables, windows, _interval(evidence))
    if coverage is None:
        return None
    often = sorted(coverage.without.items(), key=lambda item: (-item[1], item[0]))
    named = [f"{words.plural(count, 'step')} of {tokens:,}" for tokens, count in often[:_WITHOUT_SHOWN]]
    more = len(often) - _WITHOUT_SHOWN
    return GraphUse(
        figure=graphs_figure(coverage),
        summary=f"{words.plural(coverage.steps, 'step')} were seen in {coverage.covered_s:g} of "
        f"{coverage.window_s:.0f} s of the measured windows: {words.percent(coverage.covered)} replayed a graph, and "
        f"padding was {words.percent(coverage.padding)} of the tokens.",
        mode=coverage.mode,
        rows=tuple(
            (
                words.count(use.size),
                words.count(use.full),
                words.count(use.piecewise),
                words.count(use.tokens),
                words.count(use.padded),
                words.percent(use.padded / use.tokens if use.tokens else 0.0),
            )
            for use in coverage.sizes
            if use.steps
        ),
        unused=", ".join(words.count(size) for size in coverage.unused),
        without=", ".join([*named, *([f"{more:,} more sizes"] if more > 0 else [])]),
    )


def _interval(evidence: Evidence) -> float:
    """Seconds between two tables; the engine's own where what the recipe says is no number."""
    try:
        interval = float(evidence.recipe.engine.env.get("VLLM_LOG_STATS_INTERVAL", DEFAULT_INTERVAL_S))
    except ValueError:
        return DEFAULT_INTERVAL_S
    return interval if 0 < interval < float("inf") else DEFAULT_INTERVAL_S
