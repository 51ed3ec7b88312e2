"""Reads `--vary`: which assumption, over which values."""

from __future__ import annotations

import difflib
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bench.errors import UsageError
from recipes.layers import flatten

if TYPE_CHECKING:
    from recipes.schema import Recipe

TURN_GAP: Final = "load.turn_gap.mean_s"
ALIASES: Final = {"workload.turn_gap": TURN_GAP, "load.turn_gap": TURN_GAP, "turn_gap": TURN_GAP}
"""What people call the assumption that decides most; the turn gap belongs to the load, not to the workload."""

AROUND: Final = 4.0
"""Without a range: from the recipe's value over this to the value times this."""

TABLES: Final = ("engine", "workload", "load")
"""Whose numbers can be varied: hardware and checkpoint are what a target is, not what it assumes."""

_RANGE: Final = re.compile(r"\s*(.+?)\s*\.\.\s*(.+?)\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Vary:
    """An assumption and its values.

    Attributes:
        key: dotted key of the recipe.
        values: ascending, distinct.
        whole: the recipe's value is an integer, and so are all of these.
        needs_a_start: another value needs another engine start: it changes what the engine is started with, or how
            long its prompts and replies are.
    """

    key: str
    values: tuple[float, ...]
    whole: bool

    @property
    def needs_a_start(self) -> bool:
        """Whether each value is a run of its own."""
        return self.key != TURN_GAP


def parse_vary(text: str, recipe: Recipe, *, values: int) -> Vary:
    """Reads `KEY` or `KEY=LOW..HIGH`.

    Args:
        text: as written.
        recipe: resolved.
        values: how many values to consider, evenly in their ratio: a gap that is twice as long is as far from one as
            that from a gap half as long.

    Raises:
        UsageError: an unknown key, one without a number, or no range.
    """
    written, equals, bounds = text.partition("=")
    key = ALIASES.get(written.strip(), written.strip())
    now = _numbers(recipe)
    if key not in now:
        raise _unknown(text, key, recipe, now)
    whole = isinstance(now[key], int)
    if not equals:
        low, high = now[key] / AROUND, now[key] * AROUND
    else:
        found = _RANGE.fullmatch(bounds)
        if found is None:
            raise UsageError(f"--vary {text}: {bounds!r} is no range.", remedy=f"E.g. --vary {TURN_GAP}=2..16")
        low, high = (_number(text, word) for word in found.groups())
    if not 0 < low < high:
        raise UsageError(
            f"--vary {text}: the range must begin above 0 and end above its beginning, and this is {low:g}..{high:g}.",
            remedy=f"E.g. --vary {TURN_GAP}=2..16",
        )
    ratio = (high / low) ** (1 / max(1, values - 1))
    spaced = [low * ratio**step for step in range(values - 1)] + [high]
    # Three digits: a value that nobody can say is no better than its neighbour.
    rounded = [float(round(value)) if whole else float(f"{value:.3g}") for value in spaced]
    return Vary(key=key, values=tuple(sorted(set(rounded))), whole=whole)


def _numbers(recipe: Recipe) -> dict[str, Any]:
    tables = recipe.model_dump(mode="json", include=set(TABLES), exclude_none=True)
    return {
        key: value
        for key, value in flatten(tables)
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    }


def _number(text: str, word: str) -> float:
    try:
        number = float(word)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UsageError(f"--vary {text}: {word!r} is no number.", remedy=f"E.g. --vary {TURN_GAP}=2..16")
    return number


def _unknown(text: str, key: str, recipe: Recipe, now: dict[str, Any]) -> UsageError:
    known = dict(flatten(recipe.model_dump(mode="json", include=set(TABLES), exclude_none=True)))
    if key in known:
        return UsageError(
            f"--vary {text}: {key} is {known[key]!r}, which is no number above 0.",
            remedy=f"Numbers that can be varied: {', '.join(sorted(now))}.",
        )
    near = difflib.get_close_matches(key, [*now, *ALIASES], n=1)
    meant = f"Did you mean {near[0]}? " if near else ""
    return UsageError(
        f"--vary {text}: {recipe.target} has no {key}.",
        remedy=f"{meant}Numbers that can be varied: {', '.join(sorted(now))}.",
    )
