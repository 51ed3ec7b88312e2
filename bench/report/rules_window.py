"""Rules about the window: its beginning decides nothing, and it held the load that was asked for."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from bench.report.checks import Finding, Verdict, per_point, together
from bench.report.measurement import Place
from bench.stats.steady import BATCH, FEWEST_BATCHES, is_steady

if TYPE_CHECKING:
    from bench.report.measurement import Measurement
    from bench.report.model import Check

IN_FLIGHT_SHARE: Final = 0.01
"""How far the mean number of requests in flight may be from what a closed loop asks for."""

ARRIVALS_DEVIATIONS: Final = 5.0
"""Standard deviations: a window of a client that sends what it should is outside of them once in two million."""

ROUNDING: Final = 1e-6
"""Requests: times are floating-point numbers."""


def window_is_steady(measurement: Measurement, point: int) -> bool | None:
    """Whether the percentiles of a point are not decided by the beginnings of its windows; None if too few to tell."""
    columns = measurement.columns
    windows = [measurement.placed(run, point, Place.WINDOW) for run in measurement.runs_of(point)]
    return is_steady([columns.e2e[rows[columns.ok[rows]]] for rows in windows])


def beginning_decides_nothing(measurement: Measurement) -> list[Check]:
    """The ramp has not leaked into the windows: what MSER-5 would drop of them leaves p50 and p95 where they are."""
    rule = "the beginning of the window does not decide its percentiles"
    expected = "p50 and p95 stay within their intervals without what MSER-5 takes for warm-up"
    findings: dict[bool | None, Finding] = {
        True: Finding("kept", "they stay", expected),
        False: Finding(
            "broken",
            "one of them leaves its interval",
            expected,
            "Lengthen load.ramp_s, so that the opening burst is over before the window begins.",
        ),
        None: Finding(
            "unknown",
            f"a window has under {BATCH * FEWEST_BATCHES} complete replies, or does not settle in its first quarter",
            expected,
            "Lengthen load.steady_s; on a machine that others use as well, measure again when it is quiet.",
        ),
    }
    return [together(rule, point, {0: findings[window_is_steady(measurement, point)]}) for point in measurement.begun]


def as_many_in_flight(measurement: Measurement) -> list[Check]:
    """A closed loop kept as many requests in flight as it was asked to: no silent cap, no idle slots."""
    return [
        check
        for check in per_point("as many requests in flight as asked for", _in_flight, measurement)
        if check.point is not None and measurement.recipe.load.ladder[check.point].concurrent is not None
    ]


def _in_flight(measurement: Measurement, run: int, point: int) -> Finding:
    asked = measurement.recipe.load.ladder[point].concurrent or 0
    expected = f"{asked} within {IN_FLIGHT_SHARE * 100:g} %, mean over the window"
    window = measurement.windows.get((run, point))
    if window is None or not window.length:
        return Finding("unknown", "the window was never reached", expected, "Let the point end.")
    if not measurement.is_complete(point):  # what was open when it was cut off left no record
        return Finding("unknown", "the point was cut off", expected, "Let the point end.")
    mean = measurement.in_flight_seconds(run, point) / window.length
    verdict: Verdict = "kept" if abs(mean - asked) <= IN_FLIGHT_SHARE * asked else "broken"
    return Finding(
        verdict,
        f"{mean:.2f}",
        expected,
        "Requests fail at once (see the failures), or the client cannot keep up: give it a host of its own.",
    )


def as_many_arrivals(measurement: Measurement) -> list[Check]:
    """An open loop sent as many requests as its rate says, whatever the engine did: nothing held them back."""
    return [
        check
        for check in per_point("as many requests arrived as asked for", _arrivals, measurement)
        if check.point is not None and measurement.recipe.load.ladder[check.point].rate is not None
    ]


def _arrivals(measurement: Measurement, run: int, point: int) -> Finding:
    asked = measurement.recipe.load.ladder[point]
    window = measurement.windows.get((run, point))
    if window is None or not window.length:
        return Finding("unknown", "the window was never reached", asked.label, "Let the point end.")
    if not measurement.is_complete(point):
        return Finding("unknown", "the point was cut off", asked.label, "Let the point end.")
    mean = (asked.rate or 0) * window.length
    # Fixed distances put one more or less into a window; the count of a Poisson process has its mean as variance.
    margin = 1.0 if asked.arrivals == "fixed" else ARRIVALS_DEVIATIONS * math.sqrt(mean)
    arrived = len(measurement.placed(run, point, Place.WINDOW))
    expected = f"{asked.label} over {window.length:g} s: {mean:,.1f}, give or take {margin:,.1f}"
    if abs(arrived - mean) <= margin + ROUNDING:
        return Finding("kept", f"{arrived:,}", expected)
    return Finding(
        "broken",
        f"{arrived:,}",
        expected,
        "Records are missing, or the client could not keep up: give it more processes (load.client_processes), or a "
        "host of its own.",
    )
