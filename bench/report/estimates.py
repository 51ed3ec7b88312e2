"""From `bench.stats` to the report's numbers: what is infinite or unknown there is null here."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bench.report.model import Certificate, Estimate, Latency
from bench.stats.certificate import CERTIFICATE_CONFIDENCE, allowed_over
from bench.stats.quantiles import CONFIDENCE, quantile

if TYPE_CHECKING:
    from typing import Literal

    from bench.stats.quantiles import Sample


def estimate(sample: Sample, q: float) -> Estimate:
    """A percentile of a sample with its interval."""
    found = quantile(sample, q)
    if found is None:
        return Estimate(value=None, low=None, high=None, confidence=CONFIDENCE, n=sample.n, among_failures=False)
    return Estimate(
        value=finite(found.value),
        low=finite(found.low),
        high=finite(found.high),
        confidence=found.confidence,
        n=found.n,
        among_failures=math.isinf(found.value),
    )


def latency(sample: Sample) -> Latency:
    """The percentiles that every report has."""
    values = sample.values
    return Latency(
        p50=estimate(sample, 0.5),
        p90=estimate(sample, 0.9),
        p95=estimate(sample, 0.95),
        p99=estimate(sample, 0.99),
        # fsum rounds once, so that every machine gets the same mean.
        mean=math.fsum(values) / len(values) if len(values) else None,
        maximum=float(values[-1]) if len(values) else None,
    )


def certificate(sample: Sample, metric: Literal["e2e", "ttft"], q: float, limit_s: float) -> Certificate:
    """What a sample proves about a limit."""
    over, allowed = sample.over(limit_s), allowed_over(sample.n, q)
    return Certificate(
        metric=metric,
        limit_s=limit_s,
        quantile=q,
        confidence=CERTIFICATE_CONFIDENCE,
        n=sample.n,
        over=over,
        allowed=allowed,
        certified=allowed is not None and over <= allowed,
    )


def finite(value: float) -> float | None:
    """The value, or None for infinity."""
    return value if math.isfinite(value) else None
