"""What a search is told of a point: which of its requests broke the limit, in order of time; whether the client did."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bench.explain.search.boundary import Told
from bench.report import rules_client
from bench.report.measurement import Place
from bench.stats.clustered import Counts
from bench.stats.quantiles import Sample

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from numpy.typing import NDArray

    from bench.explain.slo.limit import Limit, Slo
    from bench.report.columns import Columns
    from bench.report.measurement import Measurement


def tally(measurement: Measurement, index: int, slo: Slo) -> Counts:
    """The window's requests of a point, each window of a run by itself.

    A failure breaks every limit. A request that the caller interrupted is no sample; neither is one without a second
    token, where TPOT is asked for.

    Args:
        measurement: sorted evidence.
        index: of the point in the ladder.
        slo: the limits.
    """
    columns = measurement.columns
    windows = []
    for run in measurement.runs_of(index):
        rows = measurement.placed(run, index, Place.WINDOW)
        rows = rows[columns.sampled[rows]]
        latencies = [latency_of(columns, limit)[rows] for limit in slo.limits]
        known = ~np.any([np.isnan(each) for each in latencies], axis=0)
        over = [each > limit.limit_s for each, limit in zip(latencies, slo.limits, strict=True)]
        windows.append(np.any(over, axis=0)[known])
    return Counts(tuple(windows))


def told(measurement: Measurement, index: int, slo: Slo, spoiled: Container[int | None]) -> Told:
    """What a search is told of a point.

    Args:
        measurement: sorted evidence.
        index: of the point in the ladder.
        slo: the limits.
        spoiled: from `spoiled_points`.
    """
    return Told(tally(measurement, index, slo), spoiled=index in spoiled)


def spoiled_points(measurement: Measurement) -> frozenset[int | None]:
    """The points at which the client broke one of its own rules, by their index in the ladder."""
    kept = (rules_client.event_loop, rules_client.sent_on_time, rules_client.stamped_on_time, rules_client.cpu_to_spare)
    return frozenset(check.point for rule in kept for check in rule(measurement) if check.verdict == "broken")


def latencies(measurement: Measurement, indices: Sequence[int], slo: Slo) -> Sample:
    """The first latency of a limit over all windows of some points."""
    columns = measurement.columns
    rows = np.concatenate([measurement.in_window(index) for index in indices])
    values = latency_of(columns, slo.limits[0])[rows[columns.sampled[rows]]]
    return Sample.of(values[~np.isnan(values)])


def latency_of(columns: Columns, limit: Limit) -> NDArray[np.float64]:
    """The latencies that a limit is about; +infinity for a failure, NaN where there is none."""
    match limit.metric:
        case "e2e":
            return columns.e2e
        case "ttft":
            return columns.ttft
        case "tpot":
            return columns.tpot
