"""What came of the difference, at every operating point that both reports measured."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Final

import numpy as np

from bench.explain.compare.outcome import Effect, Failures, Metric, PointEffect
from bench.report.estimates import finite
from bench.seeds import derive
from bench.stats.change import Change, figure_change, quantile_change
from bench.stats.quantiles import Sample, quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.explain.compare.side import Side
    from recipes.schema import Point

METRICS: Final[tuple[Metric, ...]] = ("e2e", "ttft")
QUANTILES: Final = (0.5, 0.95)


def effects(base: Side, other: Side) -> tuple[PointEffect, ...]:
    """Percentiles, throughput and failures of both sides, point by point in the order of the base's ladder."""
    return tuple(_at(base, other, point) for point in base.points if point in other.points)


def percentile_change(  # noqa: PLR0913  of what, between whom, how sure
    base: Side, other: Side, point: Point, metric: Metric, q: float, *, confidence: float
) -> Change | str:
    """The change of one percentile at one point; or why there is none."""
    first, second = (side.latencies(side.points[point], metric) for side in (base, other))
    seed = derive("compare", base.identity, other.identity, point.model_dump_json(), metric, repr(q)) % 2**63
    return quantile_change(first, second, q, seed=seed, confidence=confidence)


def _at(base: Side, other: Side, point: Point) -> PointEffect:
    indices = (base.points[point], other.points[point])
    found = [_percentile(base, other, point, metric, q) for metric in METRICS for q in QUANTILES]
    rates = [side.requests_per_s(each) for side, each in zip((base, other), indices, strict=True)]
    means = [statistics.fmean(rate) if rate else None for rate in rates]
    change = figure_change(*rates)
    throughput = Effect(name="requests per second", metric=None, quantile=None, base=means[0], other=means[1])
    (failed, n), (failed_other, n_other) = base.failures(indices[0]), other.failures(indices[1])
    return PointEffect(
        label=point.label,
        effects=(*found, _with(throughput, change)),
        failures=Failures(base=failed, base_n=n, other=failed_other, other_n=n_other),
    )


def _percentile(base: Side, other: Side, point: Point, metric: Metric, q: float) -> Effect:
    figures = [_pooled(side.latencies(side.points[point], metric), q) for side in (base, other)]
    effect = Effect(name=name_of(metric, q), metric=metric, quantile=q, base=figures[0], other=figures[1])
    return _with(effect, percentile_change(base, other, point, metric, q, confidence=0.95))


def name_of(metric: str, q: float) -> str:
    """E.g. "p95 of E2E"."""
    return f"p{q * 100:g} of {metric.upper()}"


def _pooled(runs: Sequence[np.typing.NDArray[np.float64]], q: float) -> float | None:
    found = quantile(Sample.of(np.concatenate(runs)), q) if runs else None
    return None if found is None else finite(found.value)


def _with(effect: Effect, change: Change | str) -> Effect:
    if isinstance(change, str):
        return effect.model_copy(update={"none": change})
    values = {name: getattr(change, name) for name in Change.__dataclass_fields__ if name in Effect.model_fields}
    return effect.model_copy(update=values)
