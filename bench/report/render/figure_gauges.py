"""What engine, GPU and host showed over a run: one small chart a gauge, all over the same time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.report.render import words
from bench.report.render.charts import Axis, Plot, clock_axis, evenly, number_axis, share_axis

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from markupsafe import Markup

    from bench.observe.observations import Observation
    from bench.report.render.charts import Place
    from bench.report.render.figure_timeline import Span

from bench.observe.observations import Gauges, GpuSample, HostSample

HEIGHT_PX: Final = 90
SAMPLES_DRAWN: Final = 600
"""Of each gauge, evenly spaced, the first and the last always among them; about one a pixel."""


@dataclass(frozen=True, slots=True)
class Gauge:
    """One line of one chart: its name, its unit's axis and its samples in order of time."""

    name: str
    axis: Callable[[float], Axis]
    places: tuple[Place, ...]


def gauges_of(observations: Sequence[Observation], run: int) -> list[Gauge]:
    """Every gauge of one run that has a sample; what nobody observed is left out."""
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
    return [Gauge(name, axis, tuple(sorted(places))) for name, (axis, places) in found.items()]


def gauge_figure(gauge: Gauge, windows: Sequence[Span], low: float, high: float) -> Markup:
    """Draws one gauge.

    Args:
        gauge: with one sample or more.
        windows: the measured windows, shaded.
        low: start of the time axis, seconds since the run's epoch; the same for all gauges of a run.
        high: its end.
    """
    plot = Plot(clock_axis(low, high, pieces=3), gauge.axis(max(value for _, value in gauge.places)), height=HEIGHT_PX)
    for window in windows:
        plot.shade(window.start_s, window.end_s, "phase steady", window.name)
    plot.grid(y_title=gauge.name)
    plot.curve([gauge.places[index] for index in evenly(len(gauge.places), SAMPLES_DRAWN)], "gauge")
    least, most = min(value for _, value in gauge.places), max(value for _, value in gauge.places)
    return plot.svg(f"{gauge.name} over the run, between {words.number(least)} and {words.number(most)}", kind="gauge")


def _share(_: float) -> Axis:
    return share_axis(pieces=2)


def _watts(high: float) -> Axis:
    return number_axis(high, label="{:g} W".format)


def _megahertz(high: float) -> Axis:
    return number_axis(high, label="{:g} MHz".format)


def _celsius(high: float) -> Axis:
    return number_axis(high, label="{:g} °C".format)
