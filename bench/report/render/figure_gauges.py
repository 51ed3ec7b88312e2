"""What engine, GPU and host showed over a run: one small chart a gauge, all over the same time, and a table of them."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.report.render import words
from bench.report.render.charts import Axis, Plot, clock_axis, number_axis, share_axis
from bench.report.render.tables import Cell, Row, Table
from bench.report.render.thinning import extremes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from markupsafe import Markup

    from bench.observe.observations import Observation
    from bench.report.render.charts import Place
    from bench.report.render.figure_timeline import Span

from bench.observe.observations import Gauges, GpuSample, HostSample

HEIGHT_PX: Final = 90
SLOTS: Final = 150
"""Pieces of the time axis; of each, a gauge's first, last, lowest and highest sample are drawn. A chart is some 250
pixels wide."""


@dataclass(frozen=True, slots=True)
class Gauge:
    """One line of one chart.

    Attributes:
        name: of it.
        axis: of its unit.
        places: its samples in order of time.
        gpu: whether it is one of a GPU.
        limit: a line to draw, where one is known: a GPU's power limit.
    """

    name: str
    axis: Callable[[float], Axis]
    places: tuple[Place, ...]
    gpu: bool = False
    limit: float | None = None

    def within(self, low: float, high: float) -> list[float]:
        """Its values in [low, high)."""
        first, end = (bisect_left(self.places, t, key=lambda place: place[0]) for t in (low, high))
        return [value for _, value in self.places[first:end]]


def gauges_of(
    observations: Sequence[Observation], run: int, power_limits: Mapping[int, float] | None = None
) -> list[Gauge]:
    """Every gauge of one run that has a sample; what nobody observed is left out.

    Args:
        observations: of all runs.
        run: which.
        power_limits: of the GPUs, watts by index, as far as they are known.
    """
    limits = {f"GPU {index} power": watts for index, watts in (power_limits or {}).items()}
    found: dict[str, tuple[Callable[[float], Axis], list[Place]]] = {}

    def add(name: str, axis: Callable[[float], Axis], t: float, value: float | None) -> None:
        if value is not None:
            found.setdefault(name, (axis, []))[1].append((t, value))

    for seen in observations:
        if seen.run != run:
            continue
        match seen:
            case Gauges():
                add("requests running", number_axis, seen.t, seen.running)
                add("requests waiting in the engine", number_axis, seen.t, seen.waiting)
                add("KV cache in use", _share, seen.t, seen.kv_usage)
            case GpuSample():
                add(f"GPU {seen.index} power", _watts, seen.t, seen.power_w)
                add(f"GPU {seen.index} SM clock", _megahertz, seen.t, seen.sm_clock_mhz)
                add(f"GPU {seen.index} busy", _share, seen.t, seen.utilization)
                add(f"GPU {seen.index} temperature", _celsius, seen.t, seen.temperature_c)
            case HostSample():
                add("host CPU cores busy", number_axis, seen.t, seen.cpu_cores_used)
            case _:
                pass
    return [
        Gauge(name, axis, tuple(sorted(places)), gpu=name.startswith("GPU "), limit=limits.get(name))
        for name, (axis, places) in found.items()
    ]


def gauge_figure(gauge: Gauge, windows: Sequence[Span], low: float, high: float) -> Markup:
    """Draws one gauge.

    Args:
        gauge: with one sample or more.
        windows: the measured windows, shaded.
        low: start of the time axis, seconds since the run's epoch; the same for all gauges of a run.
        high: its end.
    """
    values = [value for _, value in gauge.places]
    plot = Plot(clock_axis(low, high, pieces=3), gauge.axis(max([*values, gauge.limit or 0])), height=HEIGHT_PX)
    for window in windows:
        plot.shade(window.start_s, window.end_s, "phase steady", window.name)
    plot.grid(y_title=gauge.name)
    if gauge.limit is not None:
        plot.level(gauge.limit, "budget", "limit")
    plot.curve(extremes(gauge.places, SLOTS), "gauge")
    says = f"Between {words.number(min(values))} and {words.number(max(values))}."
    return plot.svg(f"{gauge.name} over the run", says=says, kind="gauge")


def gauge_table(gauges: Sequence[Gauge], windows: Sequence[tuple[str, float, float]], *, what: str) -> Table | None:
    """The same gauges as figures; None where no sample lies in a window.

    Args:
        gauges: of one run.
        windows: (name of the point, start, end) of its measured windows.
        what: the gauges are of, with the run.
    """
    rows: list[Row] = []
    for name, start, end in windows:
        inside = [gauge.within(start, end) for gauge in gauges]
        if any(inside):
            rows.append((name, *(_spread(gauge, values) for gauge, values in zip(gauges, inside, strict=True))))
    if not rows:
        return None
    return Table(
        summary=f"{what} as a table",
        caption="The mean over each measured window, and below it the lowest and the highest sample.",
        heads=("point", *(gauge.name for gauge in gauges)),
        rows=tuple(rows),
    )


def _spread(gauge: Gauge, values: Sequence[float]) -> Cell:
    if not values:
        return Cell(words.ABSENT)
    share = gauge.axis is _share
    mean, low, high = (
        words.percent(value) if share else words.number(value)
        for value in (math.fsum(values) / len(values), min(values), max(values))
    )
    unit = _UNITS.get(gauge.axis, "")
    return Cell(f"{mean}{unit}", f"{low} to {high}")


def _share(_: float) -> Axis:
    return share_axis(pieces=2)


def _watts(high: float) -> Axis:
    return number_axis(high, label="{:g} W".format)


def _megahertz(high: float) -> Axis:
    return number_axis(high, label="{:g} MHz".format)


def _celsius(high: float) -> Axis:
    return number_axis(high, label="{:g} °C".format)


_UNITS: Final[dict[Callable[[float], Axis], str]] = {_watts: " W", _megahertz: " MHz", _celsius: " °C"}
