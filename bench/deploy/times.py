"""How long a recipe takes at most, for schedulers that ask beforehand and end what takes longer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from bench.errors import UsageError

if TYPE_CHECKING:
    from recipes.schema import Recipe

BETWEEN_S: Final = 60.0
"""For each engine start beside its ready timeout: the former engine stops (20 s at most), the first turns are made."""

FINISH_S: Final = 600.0
"""Once: plan, tokenizer, hardware check, and at the end report and signature."""

LONGEST_S: Final = 30 * 86_400.0
"""No scheduler that we know lets a job run for longer."""


def ladder_s(recipe: Recipe) -> float:
    """All points of the ladder once, their drains at their longest, in seconds."""
    load = recipe.load
    return len(load.ladder) * (load.ramp_s + load.steady_s + load.drain_s)


def job_s(recipe: Recipe) -> int:
    """Of `just repro`: every engine start at its longest, with its ladder, in whole seconds.

    Raises:
        UsageError: longer than any scheduler allows.
    """
    # Where nothing is compiled yet, the first replica starts alone, and then all others together.
    starts = 1 if recipe.replicas == 1 else 2
    each = starts * recipe.engine.ready_timeout_s + BETWEEN_S + ladder_s(recipe)
    return whole_s(FINISH_S + recipe.load.runs * each)


def whole_s(seconds: float) -> int:
    """Rounded up.

    Raises:
        UsageError: longer than any scheduler allows.
    """
    if seconds > LONGEST_S:
        raise UsageError(
            f"this recipe may take {seconds / 86_400:,.0f} days, more than any scheduler allows.",
            remedy="Shorten load.ladder, load.steady_s or load.runs, or engine.ready_timeout_s.",
        )
    return math.ceil(seconds)


def slurm_time(seconds: int) -> str:
    """As `sbatch --time` takes it, rounded up to a minute: "1-02:03:00"."""
    minutes = math.ceil(seconds / 60)
    hours, minute = divmod(minutes, 60)
    day, hour = divmod(hours, 24)
    return f"{day}-{hour:02}:{minute:02}:00"
