"""A search begins: the recipe that it runs with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.explain.search.boundary import Told
from bench.explain.search.course import searched
from bench.explain.search.replay import replay
from bench.repro import reproduce
from bench.stats.clustered import Counts

if TYPE_CHECKING:
    from pathlib import Path

    from bench.explain.search.question import Question
    from bench.repro import Wishes
    from recipes.schema import Recipe


def run_search(  # noqa: PLR0913  the options of a command
    recipe: Recipe,
    questions: tuple[Question, ...],
    *,
    reports: Path,
    wishes: Wishes,
    ray: str | None,
    quiet: bool,
    as_json: bool,
) -> int:
    """Searches on one engine start, and leaves a signed report.

    Args:
        recipe: resolved; see `searching` for what becomes of it.
        questions: at least one.
        reports: folder of all reports.
        wishes: who shall answer.
        ray: address of a Ray cluster whose hosts send the load; None sends it from here.
        quiet: say nothing but errors.
        as_json: tell what happens as JSON lines.

    Returns:
        The exit code: 0 when every question has a setting that is certified to hold, 3 when one has none.

    Raises:
        StreamproofError: it cannot be done here.
    """
    return reproduce(
        searching(recipe, questions),
        reports=reports,
        wishes=wishes,
        ray=ray,
        quiet=quiet,
        as_json=as_json,
        questions=questions,
    )


def searching(recipe: Recipe, questions: tuple[Question, ...]) -> Recipe:
    """The recipe that a search starts with.

    Its ladder is the first point that is asked for. It has one run: an engine start takes minutes, and the choices of
    a search are its own. It has no claims: those that are asked about are in the questions, and the others would be
    judged by points that were chosen for something else.
    """
    first = replay(questions, 0, lambda _point, _question: Told(Counts())).following
    if first is None:
        raise ValueError("a search without a question")
    once = recipe.model_copy(update={"claims": [], "load": recipe.load.model_copy(update={"runs": 1})})
    return searched(once, [first])
