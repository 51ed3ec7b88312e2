"""A rule about barge-in: when the caller interrupts, the engine stops generating; nobody listens any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from bench.records import Outcome
from bench.report.checks import Finding, per_point
from bench.report.counters import increase
from bench.report.rules_engine import COUNTERS_ADVICE, NO_COUNTERS

if TYPE_CHECKING:
    from bench.report.measurement import Measurement
    from bench.report.model import Check

NOTICED_S: Final = 0.1
"""How long an engine may take to notice that the connection is closed: its API server hears of it at once and tells the
scheduler, which drops the request before its next step."""

FAST_QUANTILE: Final = 0.05
"""An interrupted reply is taken to have been generated as fast as the fastest of the complete ones, this share of them
left out as chance: so the bound errs on the engine's side."""

TELLING_SHARE: Final = 0.9
"""Where the bound is more than this share of everything that the interrupted requests asked for, an engine that never
stops would keep within it, too: the replies are too short, or the interruptions too late, to tell."""


def generation_stopped(measurement: Measurement) -> list[Check]:
    """By the engine's counter, interrupted replies had few more tokens than until the moment of their interruption."""
    return [
        check
        for check in per_point("the engine stopped generating when the caller interrupted", _stopped, measurement)
        if check.point is not None and measurement.recipe.load.ladder[check.point].barge_in is not None
    ]


def _stopped(measurement: Measurement, run: int, point: int) -> Finding:
    columns, rows = measurement.columns, measurement.all_of(run, point)
    interrupted = rows[columns.is_(Outcome.BARGE_IN)[rows] & ~np.isnan(columns.sent[rows])]
    counted = increase(measurement, run, point, "generation_tokens")
    per_token_s = _fast_token_s(measurement, run, point)
    expected = f"no more than until {NOTICED_S * 1000:g} ms after each interruption"
    if counted is None:
        return Finding("unknown", NO_COUNTERS, expected, COUNTERS_ADVICE)
    if not len(interrupted) or per_token_s is None:
        missing = "no reply was interrupted" if not len(interrupted) else "no reply was complete, to tell the speed by"
        return Finding("unknown", missing, expected, "Lengthen load.steady_s, or change the share of barge_in.")
    known = ~np.isnan(columns.completion[rows])
    others = rows[~known & ~columns.is_(Outcome.BARGE_IN)[rows] & ~np.isnan(columns.sent[rows])]
    theirs = counted - columns.completion[rows[known]].sum() - columns.requested[others].sum()
    asked = int(columns.requested[interrupted].sum())
    heard_s = np.nan_to_num(columns.done[interrupted] - columns.first_token[interrupted]) + NOTICED_S
    allowed = float(np.minimum(columns.requested[interrupted], 1 + heard_s / per_token_s).sum())
    told = f"{max(0.0, theirs):,.0f} tokens for {len(interrupted):,} interrupted replies of {asked:,} tokens"
    expected = f"{expected}: at most {allowed:,.0f} tokens"
    if theirs > allowed:
        return Finding(
            "broken",
            told,
            expected,
            "The engine goes on generating for callers who have left, at the cost of those who have not: let it abort "
            "requests whose connection is closed, and look for a proxy in between that keeps connections open.",
        )
    if allowed > TELLING_SHARE * asked:
        return Finding(
            "unknown",
            told,
            expected,
            "An engine that never stops would keep within this, too: interrupt earlier (barge_in.after_s), or ask for "
            "longer replies.",
        )
    return Finding("kept", told, expected)


def _fast_token_s(measurement: Measurement, run: int, point: int) -> float | None:
    """Seconds per token of the fast among the complete replies; None without any of several tokens."""
    columns, rows = measurement.columns, measurement.all_of(run, point)
    speeds = columns.tpot[rows[columns.ok[rows] & ~columns.primed[rows]]]
    speeds = speeds[np.isfinite(speeds) & (speeds > 0)]
    return float(np.quantile(speeds, FAST_QUANTILE, method="inverted_cdf")) if len(speeds) else None
