"""What a search asks, as it is recorded before its first point: with the records, all that its answer follows from."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from bench.explain.slo.limit import Slo
from recipes.schema import Claim, Point, TurnGap

Axis: TypeAlias = Literal["streams", "turn_gap"]

MOST_VALUES: Final = 100_000
"""Settings of one question: more streams than a client opens."""


class Question(BaseModel):
    """Up to which setting does a limit hold?

    Attributes:
        slo: the limit.
        axis: what is varied: the number of open streams, or the mean of their turn gap.
        values: the settings that may be measured, the easiest first: ascending streams, descending seconds.
        base: the point that they are put into.
        turn_gap: of the recipe: a varied mean keeps its distribution.
        start: index of the setting to begin with.
        looks: the most replicates at one candidate.
        most_points: the search ends after so many points, settled or not.
        error: the chance that the answer is wrong, e.g. 0.05.
        claim: the published figure that this is about, if it is about one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    slo: Slo
    axis: Axis
    values: Annotated[tuple[float, ...], Field(min_length=1, max_length=MOST_VALUES)]
    base: Point
    turn_gap: TurnGap
    start: Annotated[int, Field(ge=0)]
    looks: Annotated[int, Field(ge=1, le=100)]
    most_points: Annotated[int, Field(ge=1, le=1000)]
    error: Annotated[float, Field(ge=1e-4, le=0.5)] = 0.05
    claim: Claim | None = None

    @model_validator(mode="after")
    def _in_order(self) -> Question:
        harder = all((a < b) == (self.axis == "streams") and a != b for a, b in pairwise(self.values))
        if not harder or self.values[0] <= 0 or self.values[-1] <= 0 or self.start >= len(self.values):
            raise ValueError("the settings of a search are above 0, the easiest first, and it starts with one of them")
        if self.axis == "streams" and any(value != int(value) for value in self.values):
            raise ValueError("a number of streams is whole")
        if self.base.streams is None:
            raise ValueError("a search varies a point of streams")
        return self

    def point(self, index: int) -> Point:
        """The operating point of a setting."""
        if self.axis == "streams":
            return self.base.model_copy(update={"streams": int(self.values[index])})
        gap = self.turn_gap.model_copy(update={"mean_s": self.values[index]})
        return self.base.model_copy(update={"turn_gap": gap})

    def setting(self, index: int) -> str:
        """In words: "12 streams", "a mean turn gap of 4 s"."""
        if self.axis == "turn_gap":
            return f"a mean turn gap of {self.values[index]:g} s"
        return f"{self.values[index]:,.0f} stream{'' if self.values[index] == 1 else 's'}"
