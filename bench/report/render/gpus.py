"""What the GPUs did, for the page: power and clocks beside their limits, and whether they were throttled."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from bench.observe.observations import GpuSample
from bench.report.render import words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.observe.observations import Observation
    from bench.report.render.figure_timeline import Span

NAME_LETTERS: Final = 80
KINDS_TOLD: Final = 4
HIGHEST_W: Final = 100_000.0
"""No card has such a limit; a file may say anything."""


def power_limits(environment: Mapping[str, Any]) -> dict[int, float]:
    """Watts by index of the GPU, as far as `environment.json` gives a number for it."""
    found: dict[int, float] = {}
    for gpu in _listed(environment):
        index, watts = gpu.get("index"), gpu.get("power_limit_w")
        if isinstance(index, int) and isinstance(watts, int | float) and 0 < watts < HIGHEST_W:
            found[index] = float(watts)
    return found


def hardware(environment: Mapping[str, Any]) -> str:
    """The GPUs by name, "2 x NVIDIA H200"; empty where none is told of."""
    amounts = Counter(str(gpu["name"])[:NAME_LETTERS] for gpu in _listed(environment) if gpu.get("name"))
    told = [name if amount == 1 else f"{amount} x {name}" for name, amount in amounts.most_common(KINDS_TOLD)]
    return ", ".join([*told, *(["and others"] if len(amounts) > KINDS_TOLD else [])])


def throttling(observations: Sequence[Observation], windows: Sequence[tuple[int, Span]]) -> str:
    """Why the GPUs ran below their clocks in the measured windows, as a sentence; empty where no GPU was sampled.

    Args:
        observations: of all runs.
        windows: that were measured, with their runs.
    """
    spans = sorted((run, span.start_s, span.end_s) for run, span in windows)
    samples = [seen for seen in observations if isinstance(seen, GpuSample) and _within(spans, seen.run, seen.t)]
    if not samples:
        return ""
    reasons = Counter(reason for sample in samples for reason in sample.throttle_reasons)
    if not reasons:
        return f"No reason for lower clocks was seen in {words.plural(len(samples), 'sample')} of the measured windows."
    told = ", ".join(f"{reason} ({words.percent(many / len(samples))})" for reason, many in sorted(reasons.items()))
    return f"Reasons for lower clocks, as a share of {words.plural(len(samples), 'sample')} of the windows: {told}."


def _within(spans: Sequence[tuple[int, float, float]], run: int, t: float) -> bool:
    after = bisect_right(spans, (run, t, math.inf))
    return after > 0 and spans[after - 1][0] == run and t < spans[after - 1][2]


def _listed(environment: Mapping[str, Any]) -> list[dict[str, Any]]:
    gpus = environment.get("gpus")
    return [gpu for gpu in gpus if isinstance(gpu, dict)] if isinstance(gpus, list) else []
