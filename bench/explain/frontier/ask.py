"""From the options of `just frontier` to the questions of its searches: one for each claim, or one for a limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.errors import UsageError
from bench.explain.search.question import Question
from bench.explain.slo.limit import Limit, Slo
from recipes.schema import Point

if TYPE_CHECKING:
    from recipes.schema import Claim, Recipe


def questions(  # noqa: PLR0913  the options of a command
    recipe: Recipe,
    gaps: tuple[float, ...],
    *,
    slo: Slo | None,
    streams: int | None,
    claim_ids: tuple[str, ...],
    looks: int,
    most_points: int,
) -> tuple[Question, ...]:
    """For each claim: over which turn gaps does it hold?

    Args:
        recipe: resolved.
        gaps: mean turn gaps in seconds, ascending.
        slo: a limit to ask about instead of the claims.
        streams: with `slo`, the open streams; None takes the most of the ladder.
        claim_ids: ask about these only; empty for all that are about streams of this target.
        looks: the most replicates of one candidate.
        most_points: each search ends after so many points.

    Raises:
        UsageError: nothing to ask about.
    """
    longest_first = tuple(sorted(gaps, reverse=True))

    def about(limit: Slo, point: Point, claim: Claim | None) -> Question:
        return Question(
            slo=limit,
            axis="turn_gap",
            values=longest_first,
            base=point,
            turn_gap=recipe.load.turn_gap,
            start=(len(longest_first) - 1) // 2,
            looks=looks,
            most_points=most_points,
            claim=claim,
        )

    if slo is not None:
        counts = [point.streams for point in recipe.load.ladder if point.streams is not None]
        if streams is None and not counts:
            raise UsageError(f"the ladder of {recipe.target} has no streams", remedy="Say how many: --streams 40")
        return (about(slo, Point(streams=max(counts) if streams is None else streams), None),)
    claims = _claims(recipe, claim_ids)
    return tuple(about(limit_of(claim), claim.point, claim) for claim in claims)


def limit_of(claim: Claim) -> Slo:
    """The limit that a claim puts, its tolerance included."""
    return Slo(
        text=claim.id, share=claim.quantile, limits=(Limit(metric=claim.metric, limit_s=round(claim.limit_s, 9)),)
    )


def _claims(recipe: Recipe, ids: tuple[str, ...]) -> list[Claim]:
    able = [
        claim
        for claim in recipe.claims
        if recipe.target in claim.targets and claim.point.streams is not None and claim.against is None
    ]
    known = ", ".join(claim.id for claim in able)
    unknown = [each for each in ids if each not in {claim.id for claim in able}]
    if unknown:
        raise UsageError(
            f"--claim {unknown[0]}: {recipe.target} has no such claim about streams",
            remedy=f"Its claims are: {known}." if known else "Ask about a limit: --slo e2e:p95:1s --streams 40",
        )
    chosen = [claim for claim in able if claim.id in ids] if ids else able
    if not chosen:
        raise UsageError(
            f"{recipe.target} has no claim about streams", remedy="Ask about a limit: --slo e2e:p95:1s --streams 40"
        )
    return chosen
