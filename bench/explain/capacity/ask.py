"""From the options of `just capacity` to the questions of its searches, one for each limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.errors import UsageError
from bench.explain.search.question import MOST_VALUES, Question

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.explain.slo.limit import Slo
    from recipes.schema import Recipe

ERROR: Final = 0.05
"""The chance that any answer of a run is wrong: its limits share it."""

UP_TO: Final = 8
"""Without --to: so many times the most streams of the recipe's ladder. Doubling gets there in three points."""


def questions(  # noqa: PLR0913  the options of a command
    recipe: Recipe,
    slos: Sequence[Slo],
    *,
    lowest: int | None,
    highest: int | None,
    step: int,
    looks: int,
    most_points: int,
) -> tuple[Question, ...]:
    """How many streams hold each limit?

    Args:
        recipe: resolved.
        slos: the limits, at least one.
        lowest: fewest streams to consider, and to begin with; None begins with the fewest of the recipe's ladder, and
            considers all below.
        highest: most streams to consider; None is `UP_TO` times the most of the ladder.
        step: between two neighbours.
        looks: the most replicates of one candidate.
        most_points: each search ends after so many points.

    Raises:
        UsageError: a limit twice, a range the wrong way round, or a recipe without streams.
    """
    if twice := next((slo for index, slo in enumerate(slos) if slo in slos[:index]), None):
        raise UsageError(f"--slo {twice.text} is there twice", remedy="Name each limit once.")
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
    return tuple(
        Question(
            slo=slo,
            axis="streams",
            values=values,
            base=points[0],
            turn_gap=recipe.load.turn_gap,
            start=max((index for index, value in enumerate(values) if value <= begin), default=0),
            looks=looks,
            most_points=most_points,
            error=ERROR / len(slos),
        )
        for slo in slos
    )
