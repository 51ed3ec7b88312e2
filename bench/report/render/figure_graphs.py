"""How often each CUDA graph was replayed, and how often none was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.report.render import words
from bench.report.render.charts import Axis, Plot, number_axis

if TYPE_CHECKING:
    from markupsafe import Markup

    from bench.explain.graphs.coverage import Coverage

HEIGHT_PX: Final = 180
LABELS: Final = 12
"""Names of sizes along the axis at most; the table has all."""
GAP: Final = 0.12
"""Between two bars, as a share of their distance, on each side."""


def graphs_figure(coverage: Coverage) -> Markup:
    """A bar a graph that was replayed: whole ones below, in pieces above; and one for the steps without a graph."""
    used = [use for use in coverage.sizes if use.steps]
    without = sum(coverage.without.values())
    bars = [(words.count(use.size), use.full, use.piecewise, 0) for use in used]
    bars += [("none", 0, 0, without)] if without else []
    most = max(full + pieces + none for _, full, pieces, none in bars)
    every = -(-len(bars) // LABELS)
    ticks = [(place + 0.5, name) for place, (name, *_) in enumerate(bars) if place % every == 0 or name == "none"]
    if len(ticks) > 1 and ticks[-1][1] == "none" and ticks[-1][0] - ticks[-2][0] < every:
        del ticks[-2]
    plot = Plot(Axis(0, len(bars), tuple(ticks)), number_axis(most, label="{:,g}".format), height=HEIGHT_PX)
    plot.grid(x_title="graph, in tokens", y_title="steps")
    for place, (name, full, pieces, none) in enumerate(bars):
        left, right = place + GAP, place + 1 - GAP
        about = "without a graph" if none else f"graph of {name} tokens"
        for low, high, kind, how in (
            (0, full, "whole", "whole"),
            (full, full + pieces, "pieces", "in pieces"),
            (0, none, "none", ""),
        ):
            if high > low:
                title = f"{about}: {words.plural(high - low, 'step')} {how}".rstrip()
                plot.bar((left, right), (low, high), f"bar {kind}", title)
    return plot.svg(
        "Steps of the engine by the CUDA graph that they replayed",
        says=f"{words.percent(coverage.covered)} of {words.plural(coverage.steps, 'step')} replayed one of "
        f"{words.plural(len(used), 'graph')}; {words.count(without)} had none.",
    )
