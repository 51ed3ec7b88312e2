"""Gates of a release: "p95 of E2E at most 5 % slower", judged by intervals and never by the figure alone.

A gate is judged at every operating point that both reports measured. The chance to call a regression where there is
none, at any of them, is at most `ERROR`: each point gets its share of it (Bonferroni).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, get_args

import numpy as np

from bench.errors import UsageError
from bench.explain.compare.effects import name_of, percentile_change
from bench.explain.compare.outcome import Gated, Metric
from bench.explain.compare.words import change
from bench.stats.change import MOST_RUNS, Change, runs_to_decide

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from bench.explain.compare.outcome import GateVerdict
    from bench.explain.compare.side import Side
    from recipes.schema import Point

ERROR: Final = 0.05
"""Chance that a gate calls a regression where there is none, over all its points."""

_GATE: Final = re.compile(r"(\w+):p(\d{1,2}(?:\.\d{1,2})?):\+(\d{1,3}(?:\.\d{1,2})?)%")
_EXAMPLE: Final = "E.g. --gate e2e:p95:+5%: p95 of E2E may be up to 5 % slower."


@dataclass(frozen=True, slots=True)
class Gate:
    """A limit on how much slower a percentile may be.

    Attributes:
        text: as it was written.
        metric, q: the percentile.
        limit: ratio, 1 or more.
    """

    text: str
    metric: Metric
    q: float
    limit: float


def parse_gate(text: str) -> Gate:
    """Reads `METRIC:pQQ:+N%`.

    Raises:
        UsageError: it is none.
    """
    found = _GATE.fullmatch(text.replace(" ", ""))
    if found is None:
        raise UsageError(f"--gate {text}: this is no METRIC:PERCENTILE:+SHARE%.", remedy=_EXAMPLE)
    metric: Metric | None = next((name for name in get_args(Metric) if name == found[1].lower()), None)
    if metric is None:
        raise UsageError(f"--gate {text}: {found[1]} is none of {', '.join(get_args(Metric))}.", remedy=_EXAMPLE)
    q = round(float(found[2]) / 100, 6)
    if not q:
        raise UsageError(f"--gate {text}: p{found[2]} is no percentile.", remedy=_EXAMPLE)
    return Gate(text, metric, q, 1 + float(found[3]) / 100)


def judge(gates: Sequence[Gate], base: Side, other: Side) -> tuple[Gated, ...]:
    """Every gate at every point that both sides measured."""
    points = [point for point in base.points if point in other.points]
    return tuple(_judge(gate, base, other, point, 1 - ERROR / len(points)) for gate in gates for point in points)


def _judge(gate: Gate, base: Side, other: Side, point: Point, confidence: float) -> Gated:
    measured = percentile_change(base, other, point, gate.metric, gate.q, confidence=confidence)
    verdict: GateVerdict
    runs = None
    if isinstance(measured, str):
        verdict, reason = _without_figure(gate, base, other, point, measured)
    else:
        verdict, reason, runs = verdict_of(measured, gate.limit)
    known = None if isinstance(measured, str) else measured
    return Gated(
        gate=gate.text,
        point=point.label,
        verdict=verdict,
        limit=gate.limit,
        ratio=None if known is None else known.ratio,
        low=None if known is None else known.low,
        high=None if known is None else known.high,
        confidence=None if known is None else known.confidence,
        reason=reason,
        runs_needed=runs,
    )


def verdict_of(measured: Change, limit: float) -> tuple[GateVerdict, str, int | None]:
    """What a change says of a limit.

    Returns:
        The verdict, the reason, and how many engine starts on each side would decide an undecided one.
    """
    seen = f"{change(measured.ratio)} ({change(measured.low)} to {change(measured.high)})"
    runs = runs_to_decide(measured, limit)
    if measured.basis == "within these two starts":
        least = "more than " + str(MOST_RUNS) if runs is None else f"at least {runs}"
        reason = f"{seen} between these two engine starts; how much starts differ is not known: {least} on each side"
        return "undecided", f"{reason} (--set load.runs=...)", runs
    if measured.low > limit:
        return "regression", f"{seen}: all of it is over {change(limit)}", None
    if measured.high <= limit:
        return "no regression", f"{seen}: all of it is within {change(limit)}", None
    if runs is None:
        return "undecided", f"{seen}: more than {MOST_RUNS} engine starts on each side would be needed", None
    return "undecided", f"{seen}: some {runs} engine starts on each side would decide it (--set load.runs={runs})", runs


def _without_figure(gate: Gate, base: Side, other: Side, point: Point, why: str) -> tuple[GateVerdict, str]:
    """No ratio: still a regression where the percentile is among the failures in every start, and before in none."""
    failing = [
        [share > 1 - gate.q for share in _failed(side.latencies(side.points[point], gate.metric))]
        for side in (base, other)
    ]
    what = name_of(gate.metric, gate.q)
    if len(failing[1]) > 1 and all(failing[1]) and not any(failing[0]):
        return "regression", f"{what} is among the failures in all {len(failing[1])} starts, and in none of the base"
    return "undecided", f"there is no change of {what}: {why}"


def _failed(runs: Sequence[NDArray[np.float64]]) -> list[float]:
    return [float(np.isinf(run).mean()) if len(run) else 0.0 for run in runs]
