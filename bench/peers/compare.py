"""What a tool says, against what the server did. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from bench.load.lag import quantile
from bench.peers.tool import Counted, Rule, Triple

Truths: TypeAlias = Sequence[Mapping[str, Any]]
"""`tests.truth.ledger.Truth` of every request, in order of arrival."""

QUANTILES: Final = (0.5, 0.95, 0.99)
RAMP_SHARE: Final = 0.25
"""Of the counted requests that are taken for the ramp when it is asked how many were in flight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One tool's figures against the truth over exactly the requests that it counts.

    Attributes:
        requests: that the server answered completely, of those that the tool counts.
        uncounted: requests that the tool sent besides (ramp, priming).
        miscounted: requests that it lost, or took for what they were not: how far its number of successes or of
            failures is off, whichever is more. One failure taken for a success is off by one in both.
        truth_e2e_ms, truth_ttft_ms: p50, p95, p99 of what the server did, by the tool's own rule for percentiles.
        e2e_error_ms, ttft_error_ms: the tool's figure minus the truth's.
        in_flight: mean number of open requests at the server, after the ramp and until the last request arrived.
        window_s: that span, seconds of CLOCK_MONOTONIC.
        window_requests: requests that arrived in it.
        first_s: when the first request of all arrived, same clock.
    """

    requests: int
    uncounted: int
    miscounted: int
    truth_e2e_ms: Triple
    truth_ttft_ms: Triple
    e2e_error_ms: Triple
    ttft_error_ms: Triple
    in_flight: float
    window_s: tuple[float, float]
    window_requests: int
    first_s: float


class NothingToCompareError(Exception):
    """The server saw none of the requests that the tool counts."""


def compare(counted: Counted, truths: Truths) -> Comparison:
    """Compare.

    Raises:
        NothingToCompareError: no counted request was answered completely.
    """
    theirs = counted_truths(counted, truths)
    whole = [truth for truth in theirs if _whole(truth)]
    if not whole:
        raise NothingToCompareError("the server completed none of the requests that it counts")
    failed = len(theirs) - len(whole)
    e2e = percentiles([truth["done_s"] - truth["received_s"] for truth in whole], counted.rule)
    ttft = percentiles([truth["first_token_s"] - truth["received_s"] for truth in whole], counted.rule)
    arrivals = [truth["received_s"] for truth in theirs]
    window = arrivals[math.floor(len(arrivals) * RAMP_SHARE)], arrivals[-1]
    return Comparison(
        requests=len(whole),
        uncounted=len(truths) - len(theirs),
        miscounted=max(abs(counted.succeeded - len(whole)), abs(counted.failed - failed)),
        truth_e2e_ms=e2e,
        truth_ttft_ms=ttft,
        e2e_error_ms=_minus(counted.e2e_ms, e2e),
        ttft_error_ms=_minus(counted.ttft_ms, ttft),
        in_flight=in_flight(truths, *window),
        window_s=window,
        window_requests=sum(window[0] <= truth["received_s"] < window[1] for truth in truths),
        first_s=truths[0]["received_s"],
    )


def _whole(truth: Mapping[str, Any]) -> bool:
    """Whether the server gave the complete reply; not so a reply that was ended in order after an error."""
    return (truth["ended"], truth["status"], truth["fault"]) == ("complete", 200, "none")


def counted_truths(counted: Counted, truths: Truths) -> list[Mapping[str, Any]]:
    """The truths of the requests that the tool counts: those that it names, or all."""
    if counted.tags is None:
        return list(truths)
    return [truth for truth in truths if truth["tag"] in counted.tags]


def percentiles(seconds: Sequence[float], rule: Rule) -> Triple:
    """p50, p95 and p99 in milliseconds.

    "order" is the smallest sample with at least the share below or equal to it; "linear" interpolates between the two
    samples around rank (n - 1) q: definitions 1 and 7 of Hyndman and Fan 1996, "Sample Quantiles in Statistical
    Packages", The American Statistician 50(4).
    """
    make = _linear if rule == "linear" else _order
    p50, p95, p99 = (make(sorted(seconds), q) * 1e3 for q in QUANTILES)
    return p50, p95, p99


def _order(ascending: Sequence[float], q: float) -> float:
    return quantile(ascending, q) or 0.0


def _linear(ascending: Sequence[float], q: float) -> float:
    below, share = divmod((len(ascending) - 1) * q, 1)
    low = ascending[int(below)]
    high = ascending[min(int(below) + 1, len(ascending) - 1)]
    return low + (high - low) * share


def in_flight(truths: Truths, begin: float, end: float) -> float:
    """Mean number of requests open at the server between two times; 0 for an empty span."""
    if end <= begin:
        return 0.0
    open_s: float = sum(max(0.0, min(truth["ended_s"], end) - max(truth["received_s"], begin)) for truth in truths)
    return float(open_s / (end - begin))


def _minus(theirs: Triple, truth: Triple) -> Triple:
    p50, p95, p99 = (a - b for a, b in zip(theirs, truth, strict=True))
    return p50, p95, p99
