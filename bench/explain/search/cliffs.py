"""Cliffs: where the latency does not grow but jumps, and what else changed there.

An engine that is asked for a little more usually answers a little later. Where the percentile at least doubles between
two neighbouring settings that differ by at most half, whatever the intervals leave open, no smooth curve through the
settings below leads there, and an interpolation would be a lie. The evidence is what the records and the engine's own
counters show on one side and not on the other; a cliff without any stays unexplained.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from bench.explain.search.outcome import Cliff
from bench.observe.observations import Gauges, GraphTable
from bench.report.counters import increase

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.explain.search.outcome import Measured
    from bench.observe.observations import Observation
    from bench.report.measurement import Measurement

JUMP: Final = 2.0
"""By which the percentile grows at least."""
NEAR: Final = 1.5
"""The most that the settings on both sides may differ by, as a ratio."""
WAITING: Final = 1.0
"""Requests that wait in the engine on average: below it a queue is empty most of the time."""
NO_MORE: Final = 1.02
"""Replies per second that grow by less than this have stopped growing."""
FAILED: Final = 0.01
"""Share of failed requests that counts as a change."""
WITHOUT_GRAPH: Final = 0.1
"""Growth of the share of steps without a CUDA graph that counts as a change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """What was seen at a setting beside its latencies; None where it is not known.

    Attributes:
        preempted: requests that were preempted.
        waiting: requests that waited in the engine, mean over the windows.
        replies_per_s: complete replies.
        failed: share of failed requests.
        without_graph: share of engine steps that replayed no CUDA graph.
        largest_graph: tokens of the largest one that was captured.
    """

    preempted: float | None
    waiting: float | None
    replies_per_s: float | None
    failed: float
    without_graph: float | None
    largest_graph: int | None


def cliffs(
    measured: Sequence[Measured], measurement: Measurement, observations: Sequence[Observation]
) -> tuple[Cliff, ...]:
    """Every jump between two neighbouring settings.

    Args:
        measured: of one search, the easiest setting first.
        measurement: sorted evidence.
        observations: of the same evidence.
    """
    found = []
    for before, after in pairwise(measured):
        if max(before.value, after.value) > NEAR * min(before.value, after.value) or before.high_s is None:
            continue
        factor = None if after.low_s is None else after.low_s / before.high_s
        fails = after.low_s is None and after.n > 0 and after.bad > after.n / 2
        if (factor is not None and factor >= JUMP) or fails:
            sides = (_side(one, measurement, observations) for one in (before, after))
            found.append(
                Cliff(before=before.setting, after=after.setting, factor=factor, evidence=tuple(evidence(*sides)))
            )
    return tuple(found)


def evidence(before: Side, after: Side) -> Iterator[str]:
    """What changed between two sides, in words."""
    if after.preempted and not before.preempted:
        yield f"the KV cache was full: {after.preempted:,.0f} requests were preempted, none before"
    if before.waiting is not None and after.waiting is not None and after.waiting >= WAITING > before.waiting:
        yield f"a queue stands: {after.waiting:.1f} requests wait in the engine on average, {before.waiting:.1f} before"
    if (
        before.replies_per_s
        and after.replies_per_s is not None
        and after.replies_per_s < before.replies_per_s * NO_MORE
    ):
        yield (
            f"the engine is saturated: {after.replies_per_s:.3g} replies per second, "
            f"{before.replies_per_s:.3g} before, though more are asked for"
        )
    if after.failed >= before.failed + FAILED:
        yield f"requests fail: {after.failed * 100:.1f} %, {before.failed * 100:.1f} % before"
    if (
        before.without_graph is not None
        and after.without_graph is not None
        and after.without_graph >= before.without_graph + WITHOUT_GRAPH
    ):
        yield (
            f"steps outgrow the CUDA graphs (largest {after.largest_graph:,} tokens): "
            f"{after.without_graph * 100:.0f} % of the steps replay none, {before.without_graph * 100:.0f} % before"
        )


def _side(measured: Measured, measurement: Measurement, observations: Sequence[Observation]) -> Side:
    windows = {key: window for key, window in measurement.windows.items() if key[1] in measured.points}
    preempted = [increase(measurement, run, point, "preemptions") for run, point in windows]
    length = sum(window.length for window in windows.values())
    rows = np.concatenate([np.empty(0, np.intp), *(measurement.in_window(point) for point in measured.points)])
    sampled = rows[measurement.columns.sampled[rows]]
    complete = int(measurement.columns.ok[sampled].sum())

    def inside(seen: Observation) -> bool:
        return any(run == seen.run and window.start <= seen.t < window.end for (run, _), window in windows.items())

    waits = [seen.waiting for seen in observations if isinstance(seen, Gauges) and inside(seen)]
    known = [wait for wait in waits if wait is not None]
    tables = [seen for seen in observations if isinstance(seen, GraphTable) and inside(seen)]
    steps = sum(row.count for table in tables for row in table.steps)
    none = sum(row.count for table in tables for row in table.steps if row.mode == "NONE")
    return Side(
        preempted=None if None in preempted or not preempted else sum(each or 0 for each in preempted),
        waiting=sum(known) / len(known) if known else None,
        replies_per_s=complete / length if length else None,
        failed=1 - complete / len(sampled) if len(sampled) else 0.0,
        without_graph=none / steps if steps else None,
        largest_graph=max((size for table in tables for size in table.capture_sizes), default=None),
    )
