"""An ablation under way: every planned measurement that has no report yet, in order."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from bench.errors import Exit, StreamproofError
from bench.explain.ablate.summary import reports_of
from bench.explain.report_folder import read_report
from bench.report.render import words

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from bench.explain.ablate.plan import AblationPlan, Planned
    from recipes.schema import Recipe

    Start: TypeAlias = Callable[[Recipe, Path, str], int]
    """Runs a recipe once and leaves a report below a folder: (recipe, folder, nonce) to an exit code. The nonce makes
    the prompts of one block differ from those of another, so that no effect is one of these prompts alone."""

    Say: TypeAlias = Callable[[str], None]

TRIES: Final = 2
"""A run that breaks a rule of its own is repeated once; a disturbance rarely comes twice."""

FEWEST: Final = 2
"""Engines at once: one alone is compared with nothing."""

ENGINES: Final = "engines"
"""Folder of the logs of engines that stay."""


class Running(Protocol):
    """Engines that run at once, by the name of their configuration (`bench.explain.ablate.residents`)."""

    @property
    def failed(self) -> Mapping[str, StreamproofError]:
        """Those that did not start, and why."""

    def death(self, name: str) -> str | None:
        """How an engine ended, in words; None while it lives."""

    def measure(self, name: str, recipe: Recipe, folder: Path, nonce: str) -> int:
        """Measures a configuration once, as a `Start` does."""


if TYPE_CHECKING:
    Begin: TypeAlias = Callable[[Mapping[str, Recipe], Path], AbstractContextManager[Running]]
    """Starts engines at once, and stops them at the end: (recipes by name, folder for their logs)."""


def run_all(folder: Path, plan: AblationPlan, start: Start, say: Say) -> None:
    """Runs what is missing, an engine start each.

    Args:
        folder: of the ablation.
        plan: of it.
        start: runs one recipe.
        say: takes a line for each run.

    Raises:
        KeyboardInterrupt: a run was interrupted; what is there is kept.
        StreamproofError: an engine cannot be started: no later run of it could either.
    """
    missing = _missing(folder, plan)
    tell = _Progress(len(missing), say)
    for planned, where in missing:
        tell.begins(planned)
        _measure(plan, planned, folder / where, start, say)
        tell.ended()


def run_resident(folder: Path, plan: AblationPlan, begin: Begin, say: Say) -> None:
    """Runs what is missing, on engines that are started together and stay: one group after the other.

    An engine that does not start, or dies, ends its own configuration; the others go on. So do other groups, where
    of one too little can be started.

    Args:
        folder: of the ablation.
        plan: of it.
        begin: starts engines.
        say: takes a line for each run.

    Raises:
        KeyboardInterrupt: as above. All engines are stopped then.
        StreamproofError: of no group enough engines can be started for anything to be compared.
    """
    missing = _missing(folder, plan)
    tell = _Progress(len(missing), say)
    failed: list[StreamproofError] = []
    groups = {group: [each for each in missing if each[0].group == group] for group in plan.groups}
    begun = {group: here for group, here in groups.items() if here}
    for group, here in begun.items():
        wanted = {planned.configuration for planned, _ in here}
        recipes = {name: plan.recipe(name) for name in plan.groups[group] if name in wanted}
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        try:
            with begin(recipes, folder / ENGINES / f"{stamp}-group{group}") as engines:
                _run_group(folder, plan, here, engines, _not_started(engines, plan, recipes, say), tell)
        except StreamproofError as error:
            failed.append(error)
            say(f"  nothing of group {group} can be measured: {error.message}")
    if failed and len(failed) == len(begun):
        raise failed[-1]


def _run_group(  # noqa: PLR0913, PLR0917  a group, and what is told of it
    folder: Path,
    plan: AblationPlan,
    missing: list[tuple[Planned, str]],
    engines: Running,
    gone: set[str],
    tell: _Progress,
) -> None:
    """Measures on engines that run; ends when the one that all are compared with is gone."""
    for planned, where in missing:
        name = planned.configuration
        tell.begins(planned, gone=name in gone)
        if name in gone:
            continue
        why = _until_it_dies(plan, planned, folder / where, engines, tell.say)
        tell.ended()
        if why is None:
            continue
        gone.add(name)
        if name == plan.reference:
            tell.say(f"  {name} ends here, and with it this group: {why}")
            return
        tell.say(f"  {name} ends here, the others go on: {why}")


def _until_it_dies(plan: AblationPlan, planned: Planned, where: Path, engines: Running, say: Say) -> str | None:
    """Measures once; why its configuration ends with it, if it does."""
    name = planned.configuration
    try:
        _measure(
            plan, planned, where, partial(engines.measure, name), say, over=lambda: engines.death(name) is not None
        )
    except StreamproofError as error:
        return error.message
    return engines.death(name)


def _not_started(engines: Running, plan: AblationPlan, recipes: Mapping[str, Recipe], say: Say) -> set[str]:
    """The configurations whose engines did not start.

    Raises:
        StreamproofError: without them nothing is left to compare.
    """
    for name, error in engines.failed.items():
        say(f"  {name} did not start: {error.message}")
    left = [name for name in recipes if name not in engines.failed]
    if engines.failed and (len(left) < FEWEST or plan.reference in engines.failed):
        name, error = next(iter(engines.failed.items()))
        raise StreamproofError(f"{name} did not start: {error.message}", remedy=error.remedy)
    return set(engines.failed)


def is_done(run: Path) -> bool:
    """Whether a planned measurement has a report that counts."""
    for path in reports_of(run):
        try:
            report = read_report(path)
        except StreamproofError:
            continue
        if report.valid and not report.partial:
            return True
    return False


def _measure(  # noqa: PLR0913, PLR0917  a measurement, and when to give it up
    plan: AblationPlan, planned: Planned, where: Path, start: Start, say: Say, over: Callable[[], bool] = lambda: False
) -> None:
    """Measures once, and once more where the run broke a rule of its own, unless all is over."""
    name, block = planned.configuration, planned.block
    for attempt in range(1, TRIES + 1):
        nonce = f"ablation {plan.seed} block {block} try {len(reports_of(where)) + 1}"
        code = start(plan.recipe(name), where, nonce)
        if code == Exit.INTERRUPTED:
            raise KeyboardInterrupt
        if is_done(where) or over():
            return
        say(f"  {name} in block {block} was invalid{': once more' if attempt < TRIES else ', and stays so'}")


class _Progress:
    """Says which run begins, and how long the rest takes."""

    def __init__(self, count: int, say: Say) -> None:
        self._count = count
        self.say = say
        self._done = 0
        self._measured = 0
        self._measured_s = 0.0
        self._began = 0.0

    def begins(self, planned: Planned, *, gone: bool = False) -> None:
        """One more run; one that is `gone` is not measured."""
        left = ""
        if self._measured:
            left = f", some {words.clock(self._measured_s / self._measured * (self._count - self._done))} left"
        self._done += 1
        what = f"run {self._done} of {self._count}: {planned.configuration}, block {planned.block}"
        self.say(f"{what}: its engine is gone" if gone else f"{what}{left}")
        self._began = time.monotonic()

    def ended(self) -> None:
        """The run that began last is over; engines that start for many runs are in none of them."""
        self._measured += 1
        self._measured_s += time.monotonic() - self._began


def _missing(folder: Path, plan: AblationPlan) -> list[tuple[Planned, str]]:
    """What has no report that counts, in order, with its folder."""
    places = [(planned, planned.folder(position)) for position, planned in enumerate(plan.order, start=1)]
    return [(planned, where) for planned, where in places if not is_done(folder / where)]
