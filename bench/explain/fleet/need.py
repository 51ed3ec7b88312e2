"""From streams per replica to a fleet: replicas, GPUs, cost. Pure arithmetic, each step with its reason.

A replica's measured number already holds the chance of many callers speaking at once: its streams spoke as they like.
What it does not hold is how a router spreads calls. A router that always picks the least loaded replica needs the plain
quotient. One that picks at random leaves some replicas with more than their share: with N calls thrown onto R replicas
each holds Binomial(N, 1/R) of them, and R is chosen so that all stay within their number with `KEPT` (union bound).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from bench.stats.binomial import largest_count

KEPT: Final = 0.99
"""Chance that no replica has more streams than it holds, when calls are spread at random."""
SPARE: Final = 1
"""Replicas that may fail at once: N + 1."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """What a number of streams needs.

    Attributes:
        per_replica: streams that one replica is taken to hold.
        replicas: with the spare one; without it every stream still finds its place.
        at_random: likewise, where calls are spread at random; None where no number of replicas would do.
        gpus: of `replicas`.
        per_hour: cost of `gpus`; None without a price.
        per_stream_hour: of that, for one stream.
    """

    per_replica: int
    replicas: int
    at_random: int | None
    gpus: int
    per_hour: float | None
    per_stream_hour: float | None


def fleet(streams: int, per_replica: int, *, gpus_each: int, price: float | None) -> Fleet:
    """Sizes it.

    Args:
        streams: open at once at the busiest moment.
        per_replica: that one replica holds.
        gpus_each: of a replica.
        price: of one GPU (or host, without GPUs) for an hour.
    """
    replicas = math.ceil(streams / per_replica) + SPARE
    spread = replicas_at_random(streams, per_replica)
    gpus = replicas * gpus_each
    cost = None if price is None else gpus * price
    return Fleet(
        per_replica=per_replica,
        replicas=replicas,
        at_random=None if spread is None else spread + SPARE,
        gpus=gpus,
        per_hour=cost,
        per_stream_hour=None if cost is None else cost / streams,
    )


def replicas_at_random(streams: int, per_replica: int) -> int | None:
    """The fewest replicas so that calls spread at random overload none of them, with a chance of `KEPT`.

    Returns:
        None where even a replica for every stream would not do (one stream a replica, several calls).
    """
    least, most = math.ceil(streams / per_replica), streams * 100
    if not _enough(streams, per_replica, most):
        return None
    while least < most:
        middle = (least + most) // 2
        least, most = (least, middle) if _enough(streams, per_replica, middle) else (middle + 1, most)
    return least


def _enough(streams: int, per_replica: int, replicas: int) -> bool:
    if streams <= per_replica:
        return True
    if replicas == 1:
        return False
    # More than per_replica of them on one replica: fewer than streams - per_replica on all the others.
    outside = largest_count(streams, 1 - 1 / replicas, max(1e-12, (1 - KEPT) / replicas))
    return outside is not None and outside >= streams - per_replica - 1
