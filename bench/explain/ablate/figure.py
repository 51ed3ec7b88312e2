"""Effects of the factors on one figure, both directions beside each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.explain.ablate.words import effect, figure_name
from bench.explain.compare.figure import change_axis
from bench.report.render.charts import Axis, Plot

if TYPE_CHECKING:
    from markupsafe import Markup

    from bench.explain.ablate.outcome import FigureEffects, Interval

HEIGHT_PX: Final = 240
DIRECTIONS: Final = (("added first", "p50", -8), ("removed last", "p95", 8))
"""Name, class of the style sheet, pixels to the side."""


def effects_figure(figure: FigureEffects) -> Markup | None:
    """Draws the effects of every factor and the total, as far as they were measured; None where none was."""
    pairs = [(each.factor, (each.added_first, each.removed_last)) for each in figure.factors]
    everything = [one for one in (*(one for _, two in pairs for one in two), figure.total) if one is not None]
    if not everything:
        return None
    ends = [end for one in everything for end in (one.ratio, one.low or one.ratio, one.high or one.ratio)]
    names = [name for name, _ in pairs] + ([] if figure.total is None else ["all"])
    plot = Plot(
        Axis(-0.5, len(names) - 0.5, tuple(enumerate(_short(name, len(names)) for name in names))),
        change_axis(ends),
        height=HEIGHT_PX,
    )
    plot.grid(x_title="factor", y_title="change of latency")
    plot.level(1.0, "guide", "no change")
    for index, (factor, two) in enumerate(pairs):
        for (name, kind, shift), one in zip(DIRECTIONS, two, strict=True):
            _mark(plot, (index, one), f"{factor}, {name}", kind, shift_px=shift)
    _mark(plot, (len(pairs), figure.total), "all together", "p99")
    return plot.svg(f"Effects on {figure_name(figure)}; the figures stand in the table")


def _mark(plot: Plot, place: tuple[int, Interval | None], name: str, kind: str, *, shift_px: int = 0) -> None:
    index, one = place
    if one is None:
        return
    if one.low is not None:
        plot.whisker(index, one.low, one.high, kind, shift_px=shift_px)
    plot.dot((index, one.ratio), kind, f"{name}: {effect(one)}", shift_px=shift_px)


def _short(name: str, many: int) -> str:
    """Names that do not run into each other on a phone."""
    most = max(4, 30 // many)
    return name if len(name) <= most else f"{name[: most - 1]}."
