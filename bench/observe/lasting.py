"""Prefix hits in the long run, as planned before a run: what a run of minutes may end too early to see."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from bench.observe.observed import Observed
from bench.workload.prefix_cache_rules import HIT_TOLERANCE

Count: TypeAlias = Annotated[int, Field(ge=1, le=10**9)]
Part: TypeAlias = Annotated[float, Field(ge=0, le=1)]


class Lasting(BaseModel):
    """Hits of a simulated engine that served a workload until its pool of cache blocks had been through.

    `bench.explain.preflight.lasting` makes it.

    Attributes:
        at_once: requests that ran at once; each stream's next prompt came as soon as its reply had ended.
        blocks: of the pool.
        requests: that were served.
        first: share of prompt tokens that hits are while nothing is given up.
        rate: the share that they were of the last requests.
        lost_after: the request that first found less; None where none did.
        full: whether every block of the pool was used. Otherwise it has not been through yet, or never will be.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    at_once: Count
    blocks: Count
    requests: Count
    first: Part
    rate: Part
    lost_after: Count | None
    full: bool

    @property
    def lasts(self) -> bool:
        """Whether a report whose every request came late would still find its hits as predicted."""
        return self.rate >= (1 - HIT_TOLERANCE) * self.first


class LastingHits(Observed):
    """What was planned of the run's own engine, before it was started."""

    kind: Literal["lasting_hits"] = "lasting_hits"
    hits: Lasting
