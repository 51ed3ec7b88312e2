"""From the options of `just capacity` to the question of its search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.errors import UsageError
from bench.explain.search.question import MOST_VALUES, Question

if TYPE_CHECKING:
    from bench.explain.slo.limit import Slo
    from recipes.schema import Recipe

UP_TO: Final = 8
"""Without --to: so many times the most streams of the recipe's ladder. Doubling gets there in three points."""


def question(  # noqa: PLR0913  the options of a command
    recipe: Recipe,
    slo: Slo,
    *,
    lowest: int | None,
    highest: int | None,
    step: int,
    looks: int,
    most_points: int,
) -> Question:
    """How many streams hold the limit?

    Args:
        recipe: resolved.
        slo: the limit.
        lowest: fewest streams to consider, and to begin with; None begins with the fewest of the recipe's ladder, and
            considers all below.
        highest: most streams to consider; None is `UP_TO` times the most of the ladder.
        step: between two neighbours.
        looks: the most replicates of one candidate.
        most_points: the search ends after so many points.

    Raises:
        UsageError: a range the wrong way round, or a recipe without streams.
    """
    points = [point for point in recipe.load.ladder if point.streams is not None]
    if not points:
        raise UsageError(
            f"the ladder of {recipe.target} has no streams to search from",
            remedy="Give it some: --set load.ladder='[{streams = 2}]'",
        )
    counts = [point.streams for point in points if point.streams is not None]
    first = step if lowest is None else lowest
    last = max(UP_TO * max(counts), first) if highest is None else highest
    if last < first:
        fewest = f"--step {step}" if lowest is None else f"--from {first}"
        raise UsageError(f"{fewest} is above --to {last}", remedy="The search goes from few streams to many.")
    values = tuple(float(count) for count in range(first, last + 1, step))
    if len(values) > MOST_VALUES:
        raise UsageError(f"{len(values):,} stream counts are too many", remedy="Raise --step.")
    begin = min(counts) if lowest is None else lowest
    return Question(
        slo=slo,
        axis="streams",
        values=values,
        base=points[0],
        turn_gap=recipe.load.turn_gap,
        start=max((index for index, value in enumerate(values) if value <= begin), default=0),
        looks=looks,
        most_points=most_points,
    )
