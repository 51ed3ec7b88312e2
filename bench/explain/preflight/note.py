"""What `just repro` says of its plan before the engine starts: a line, and one for whatever is not well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.errors import StreamproofError
from bench.explain.preflight.command import plan
from bench.explain.preflight.lasting import lasting_of
from bench.explain.preflight.verdicts import LASTING, verdicts_of, worst

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.observe.lasting import Lasting
    from recipes.schema import Recipe


def lasting_hits(recipe: Recipe) -> Lasting | None:
    """Prefix hits in the long run, for the report; None where no plan knows."""
    try:
        return lasting_of(plan(recipe, offline=True))
    except StreamproofError:
        return None


def plan_notes(recipe: Recipe) -> Iterator[str]:
    """Lines for people. They stop nothing: the engine itself decides, and a recipe without a plan says only that.

    Beside what cannot be stands what no report of minutes shows: hits that do not last.
    """
    try:
        verdicts = verdicts_of(plan(recipe, offline=True))
    except StreamproofError as error:
        yield f"preflight: no plan can be made: {error.message}"
        return
    yield f"preflight: {worst(verdicts)} (just preflight {recipe.target} says why)"
    for verdict in verdicts:
        if verdict.verdict == "cannot" or verdict.name == LASTING:
            yield f"  {verdict.name}: {verdict.why}; change: {verdict.change}"
