"""The figures of one operating point, from its records and observations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bench.records import Outcome
from bench.report.columns import OUTCOMES
from bench.report.counters import increase
from bench.report.estimates import certificate, finite, latency
from bench.report.measurement import Place
from bench.report.model import BetweenRuns, PointReport, Speculation, WindowOfRun
from bench.report.rules_window import window_is_steady
from bench.stats.quantiles import Sample, quantile
from bench.stats.runs import between_runs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bench.report.measurement import Measurement, Rows
    from bench.report.model import PrefixCache
    from recipes.schema import Claim


def point_report(measurement: Measurement, index: int, prefix_cache: PrefixCache) -> PointReport:
    """Everything about one point.

    Args:
        measurement: sorted evidence.
        index: of the point in the recipe's ladder; at least one run has begun it.
        prefix_cache: predicted and measured hits of this point.
    """
    point = measurement.recipe.load.ladder[index]
    window = measurement.in_window(index)
    runs = measurement.runs_of(index)
    outside = {
        place: np.concatenate([measurement.placed(run, index, place) for run in runs])
        for place in (Place.RAMP, Place.DRAIN)
    }
    length = sum(measurement.windows[run, index].length for run in runs if (run, index) in measurement.windows)
    completed = window[measurement.columns.ok[window]]
    return PointReport(
        index=index,
        label=point.label,
        streams=point.streams if point.barge_in is None and point.turn_gap is None else None,
        concurrent=point.concurrent,
        complete=measurement.is_complete(index),
        requests=len(window),
        ramp_requests=len(outside[Place.RAMP]),
        drain_requests=len(outside[Place.DRAIN]),
        failures=_failures(measurement, window),
        e2e=latency(sample_of(measurement, window, measurement.columns.e2e)),
        ttft=latency(sample_of(measurement, window, measurement.columns.ttft)),
        tpot=latency(sample_of(measurement, window, measurement.columns.tpot)),
        ramp_p95_e2e=_p95(sample_of(measurement, outside[Place.RAMP], measurement.columns.e2e)),
        requests_per_s=len(completed) / length if length else None,
        output_tokens_per_s=float(measurement.columns.completion[completed].sum()) / length if length else None,
        mean_in_flight=sum(measurement.in_flight_seconds(run, index) for run in runs) / length if length else None,
        runs=tuple(_window_of_run(measurement, run, index) for run in runs if (run, index) in measurement.windows),
        between_runs=_between_runs(measurement, index),
        certificates=tuple(
            certificate(claim_sample(measurement, claim, index), claim.metric, claim.quantile, claim.limit_s)
            for claim in _distinct_limits(measurement.recipe.claims)
            if claim.point == point
        ),
        prefix_cache=prefix_cache,
        speculation=_speculation(measurement, index),
        steady=window_is_steady(measurement, index),
    )


def sample_of(measurement: Measurement, rows: Rows, latencies: NDArray[np.float64]) -> Sample:
    """The latency sample of some records: without those that the caller interrupted, or that have no such latency."""
    values = latencies[rows[measurement.columns.sampled[rows]]]
    return Sample.of(values[~np.isnan(values)])


def claim_sample(measurement: Measurement, claim: Claim, index: int) -> Sample:
    """What a claim is judged by: its metric in the window of its point, all runs pooled."""
    latencies = measurement.columns.e2e if claim.metric == "e2e" else measurement.columns.ttft
    return sample_of(measurement, measurement.in_window(index), latencies)


def _distinct_limits(claims: list[Claim]) -> list[Claim]:
    """One claim for each limit: two that ask the same need one certificate. A change between reports puts no limit."""
    return list(
        {
            (claim.point.label, claim.metric, claim.quantile, claim.limit_s): claim
            for claim in claims
            if claim.against is None
        }.values()
    )


def _failures(measurement: Measurement, window: Rows) -> dict[str, int]:
    counts = np.bincount(measurement.columns.outcome[window], minlength=len(OUTCOMES))
    return {
        outcome.value: int(count)
        for outcome, count in zip(OUTCOMES, counts, strict=True)
        if count and outcome not in (Outcome.OK, Outcome.BARGE_IN)
    }


def _p95(sample: Sample) -> float | None:
    found = quantile(sample, 0.95)
    return None if found is None else finite(found.value)


def _window_of_run(measurement: Measurement, run: int, index: int) -> WindowOfRun:
    window, rows = measurement.windows[run, index], measurement.placed(run, index, Place.WINDOW)
    return WindowOfRun(
        run=run,
        start_s=window.start,
        end_s=window.end,
        requests=len(rows),
        p95_e2e=_p95(sample_of(measurement, rows, measurement.columns.e2e)),
    )


def _between_runs(measurement: Measurement, index: int) -> BetweenRuns | None:
    rows = [measurement.placed(run, index, Place.WINDOW) for run in measurement.runs_of(index)]
    found = between_runs([sample_of(measurement, each, measurement.columns.e2e) for each in rows], 0.95)
    return None if found is None else BetweenRuns(variance=found.variance, coefficient=found.coefficient)


def _speculation(measurement: Measurement, index: int) -> Speculation | None:
    """From the engine's counters over the whole point, all runs together; None where it drafts nothing or is silent."""
    runs = measurement.runs_of(index)
    drafts = [increase(measurement, run, index, "spec_drafts") for run in runs]
    accepted = [increase(measurement, run, index, "spec_accepted_tokens") for run in runs]
    if None in drafts or None in accepted or not (total := sum(each or 0 for each in drafts)) > 0:
        return None
    positions = [_accepted_per_position(measurement, run, index) for run in runs]
    return Speculation(
        acceptance_length=1 + sum(each or 0 for each in accepted) / total,
        per_position=tuple(sum(each) / total for each in zip(*positions, strict=False)),
    )


def _accepted_per_position(measurement: Measurement, run: int, index: int) -> tuple[float, ...]:
    """Drafts accepted at each position over a point; empty where the engine does not say."""
    before, after = measurement.seen.before[run, index], measurement.seen.after[run, index]
    pairs = zip(before.spec_accepted_per_position or (), after.spec_accepted_per_position or (), strict=False)
    return tuple(last - first for first, last in pairs)
