"""An ablation under way: every planned engine start that has no report yet, in order."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, TypeAlias

from bench.errors import Exit, StreamproofError
from bench.explain.ablate.summary import reports_of
from bench.explain.report_folder import read_report
from bench.report.render import words

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench.explain.ablate.plan import AblationPlan
    from recipes.schema import Recipe

    Start: TypeAlias = Callable[[Recipe, Path, str], int]
    """Runs a recipe once and leaves a report below a folder: (recipe, folder, nonce) to an exit code. The nonce makes
    the prompts of one block differ from those of another, so that no effect is one of these prompts alone."""

TRIES: Final = 2
"""A run that breaks a rule of its own is repeated once; a disturbance rarely comes twice."""


def run_all(folder: Path, plan: AblationPlan, start: Start, say: Callable[[str], None]) -> None:
    """Runs what is missing.

    Args:
        folder: of the ablation.
        plan: of it.
        start: runs one recipe.
        say: takes a line for each run.

    Raises:
        KeyboardInterrupt: a run was interrupted; what is there is kept.
        StreamproofError: an engine cannot be started: no later run of it could either.
    """
    began, missing = time.monotonic(), [each for each in _planned(plan) if not is_done(folder / each[1])]
    for done, (name, where, block) in enumerate(missing):
        left = ""
        if done:
            left = f", some {words.clock((time.monotonic() - began) / done * (len(missing) - done))} left"
        say(f"run {done + 1} of {len(missing)}: {name}, block {block}{left}")
        for attempt in range(1, TRIES + 1):
            nonce = f"ablation {plan.seed} block {block} try {len(reports_of(folder / where)) + 1}"
            code = start(plan.recipe(name), folder / where, nonce)
            if code == Exit.INTERRUPTED:
                raise KeyboardInterrupt
            if is_done(folder / where):
                break
            say(f"  {name} in block {block} was invalid{': once more' if attempt < TRIES else ', and stays so'}")


def is_done(run: Path) -> bool:
    """Whether a planned engine start has a report that counts."""
    for path in reports_of(run):
        try:
            report = read_report(path)
        except StreamproofError:
            continue
        if report.valid and not report.partial:
            return True
    return False


def _planned(plan: AblationPlan) -> list[tuple[str, str, int]]:
    """(configuration, folder, block) in order."""
    return [
        (planned.configuration, planned.folder(position), planned.block)
        for position, planned in enumerate(plan.order, start=1)
    ]
