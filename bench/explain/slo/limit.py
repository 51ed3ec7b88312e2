"""What replies are held against: "at least this share of all requests stays within these limits"."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

Metric: TypeAlias = Literal["e2e", "ttft", "tpot"]


class Limit(BaseModel):
    """One limit of one latency, in seconds: met at exactly this value, and by no failure."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    metric: Metric
    limit_s: Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Slo(BaseModel):
    """A service level objective.

    Attributes:
        text: as it was written.
        share: of all requests that must be good, e.g. 0.95. "p95 at most 1 s" and "95 % within 1 s" are the same.
        limits: a request is good when it meets all of them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: Annotated[str, Field(min_length=1, max_length=200)]
    share: Annotated[float, Field(gt=0, lt=1)]
    limits: Annotated[tuple[Limit, ...], Field(min_length=1, max_length=3)]

    @property
    def allowed(self) -> float:
        """The share of bad requests that still holds: 0.1 for p90, where floating point would say a little less."""
        return round(1 - self.share, 9)

    @property
    def says(self) -> str:
        """In words: "p95 of E2E at most 1 s", "99 % of the replies with E2E at most 1 s and TTFT at most 300 ms"."""
        each = " and ".join(f"{limit.metric.upper()} at most {_time(limit.limit_s)}" for limit in self.limits)
        if len(self.limits) > 1:
            return f"{self.share * 100:g} % of the replies with {each}"
        return f"p{self.share * 100:g} of {each}"


def _time(seconds: float) -> str:
    return f"{seconds * 1000:.4g} ms" if seconds < 1 else f"{seconds:.4g} s"
