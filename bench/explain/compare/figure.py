"""The change at every operating point, with its interval."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from bench.explain.compare.words import change, change_interval
from bench.report.render.charts import Axis, Plot, nice_step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markupsafe import Markup

    from bench.explain.compare.outcome import Effect, PointEffect

HEIGHT_PX: Final = 240
DRAWN: Final = (("p50 of E2E", "p50", -8), ("p95 of E2E", "p95", 8))
"""Name, class of the style sheet, pixels to the side."""


def change_figure(points: Sequence[PointEffect], limits: Sequence[tuple[str, float]]) -> Markup | None:
    """Draws p50 and p95 of E2E as a change from the base; None where no point has an interval.

    Args:
        points: of a pair.
        limits: (gate, ratio) to be drawn across.
    """
    drawn = {(point.label, effect.name): effect for point in points for effect in point.effects if _known(effect)}
    names = [name for name, _, _ in DRAWN]
    ends = [end for (_, name), effect in drawn.items() if name in names for end in (effect.low or 1, effect.high or 1)]
    if not ends:
        return None
    places = Axis(-0.5, len(points) - 0.5, tuple((index, _short(point.label)) for index, point in enumerate(points)))
    plot = Plot(places, change_axis([*ends, *(limit for _, limit in limits)]), height=HEIGHT_PX)
    plot.grid(x_title="operating point", y_title="change")
    plot.level(1.0, "guide", "no change")
    for gate, limit in limits:
        plot.level(limit, "budget", gate)
    for index, point in enumerate(points):
        for name, kind, shift in DRAWN:
            effect = drawn.get((point.label, name))
            if effect is None or effect.ratio is None or effect.low is None:
                continue
            plot.whisker(index, effect.low, effect.high, kind, shift_px=shift)
            title = f"{name} at {point.label}: {change(effect.ratio)} ({change_interval(effect)})"
            plot.dot((index, effect.ratio), kind, title, shift_px=shift)
    return plot.svg("Change of p50 and p95 of E2E by operating point; the figures stand in the tables")


def change_axis(ratios: Sequence[float]) -> Axis:
    """Ratios as changes in percent, 1 always among them."""
    low, high = min(1.0, *ratios), max(1.0, *ratios)
    room = max(high - low, 0.02)
    step = nice_step(room, 5)
    first, last = math.floor((low - 1) / step - 1e-9), math.ceil((high - 1) / step + 1e-9)
    ticks = tuple(
        (1 + index * step, f"{index * step * 100:+g} %" if index else "0 %") for index in range(first, last + 1)
    )
    return Axis(1 + first * step, 1 + last * step, ticks)


def _known(effect: Effect) -> bool:
    return effect.low is not None and effect.high is not None


def _short(label: str) -> str:
    return label.replace(" concurrent requests", " in flight").replace(" streams", "")
