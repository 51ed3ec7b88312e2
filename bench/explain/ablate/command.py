"""`just ablate`: plans, runs what is missing, summarizes, signs, shows."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from bench.errors import Exit, StreamproofError, UsageError
from bench.explain.ablate import folder as folders
from bench.explain.ablate.course import run_all
from bench.explain.ablate.factors import choose, derive
from bench.explain.ablate.plan import make_plan
from bench.explain.ablate.show import shown, shown_plan
from bench.report.folder_files import canonical_json
from bench.report.keys import own_signer, trusted_keys
from bench.report.verify_show import ALLOW_LIST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.explain.ablate.course import Start
    from bench.explain.ablate.outcome import Ablation
    from bench.explain.ablate.plan import AblationPlan
    from recipes.schema import Recipe


def plan_of(  # noqa: PLR0913  the options of a command
    base: Recipe, target: Recipe, *, wanted: Sequence[str], blocks: int, seed: int, engine: str | None = None
) -> AblationPlan:
    """The plan between two recipes.

    Raises:
        UsageError: they differ in hardware or in nothing, a factor or engine is unknown, a configuration is no recipe.
    """
    if engine not in {None, "docker", "process"}:
        raise UsageError(f"--engine {engine}: there is no such engine.", remedy="It is docker or process.")
    plan = make_plan(base, target, choose(derive(base, target), wanted), blocks=blocks, seed=seed)
    plan = plan.model_copy(update={"engine": engine})
    for each in plan.configurations:
        plan.recipe(each.name)  # what is no recipe is said now, and not after an hour
    return plan


def dry_run(plan: AblationPlan, *, as_json: bool) -> Exit:
    """Shows a plan."""
    if as_json:
        sys.stdout.write(canonical_json(plan.model_dump(mode="json", exclude_none=True)).decode())
    else:
        Console(highlight=False).print(shown_plan(plan))
    return Exit.OK


def ablate(plan: AblationPlan, reports: Path, start: Start | None = None, *, as_json: bool) -> Exit:
    """Runs a new ablation.

    Args:
        plan: of it.
        reports: folder of all reports.
        start: runs one recipe; by default as `just repro` does.
        as_json: print the summary as JSON.

    Returns:
        0; 130 where it was interrupted; 4 where a block could not be measured.

    Raises:
        StreamproofError: an engine cannot be started.
    """
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    folder = reports / "ablation" / f"{stamp}-{plan.base.target}-to-{plan.target.target}"
    folders.begin(folder, plan)
    return resume(folder, start, as_json=as_json)


def resume(folder: Path, start: Start | None = None, *, as_json: bool) -> Exit:
    """Goes on with an ablation; likewise."""
    plan = folders.read_plan(folder)
    start = start or engine_start(plan.engine, quiet=as_json)
    out = Console(highlight=False, stderr=True)
    out.print(Text(f"ablation in {folder}"))
    own_signer()  # made before anything is measured, so that the reports are trusted here
    code = Exit.OK
    try:
        run_all(folder, plan, start, lambda line: out.print(Text(line)))
    except KeyboardInterrupt:
        code = Exit.INTERRUPTED
        out.print(Text(f"Interrupted. What is measured is kept; to go on: just ablate --resume {folder}"))
    except StreamproofError:
        out.print(Text(f"What is measured is kept. To go on: just ablate --resume {folder}; a factor that cannot be"))
        out.print(Text("served by itself can be left out of a new ablation with --factors."))
        raise
    ablation = folders.finish(folder, trusted_keys(allow_list=ALLOW_LIST))
    _tell(ablation, folder, as_json=as_json)
    return code if code or ablation.complete else Exit.INVALID


def check(folder: Path, keys: Sequence[Path], *, as_json: bool) -> Exit:
    """Verifies an ablation and shows it.

    Raises:
        StreamproofError: says what does not hold.
    """
    ablation = folders.check(folder, trusted_keys(allow_list=ALLOW_LIST, extra=keys))
    _tell(ablation, folder, as_json=as_json)
    if not as_json:
        Console(highlight=False).print("[bold green]VERIFIED[/] signature, every report, and the summary from them")
    return Exit.OK


def engine_start(engine: str | None, *, quiet: bool) -> Start:
    """Runs a recipe as `just repro` does."""
    from bench.repro import Wishes, reproduce  # noqa: PLC0415  the heavy part

    def start(recipe: Recipe, folder: Path, nonce: str) -> int:
        again = partial(reproduce, reports=folder, wishes=Wishes(engine=engine), quiet=quiet, as_json=False)
        return again(recipe, nonce=nonce)

    return start


def need(value: Path | str | None, option: str) -> str:
    """An option that a new ablation cannot do without.

    Raises:
        UsageError: it is missing.
    """
    if value is None:
        raise UsageError(f"{option} is missing.", remedy="just ablate TARGET --from BASE, e.g. h200-fp8 --from vanilla")
    return str(value)


def _tell(ablation: Ablation, folder: Path, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(canonical_json(ablation.model_dump(mode="json")).decode())
        return
    console = Console(highlight=False)
    console.print(shown(ablation))
    console.print(Text(f"\npage {folder / folders.PAGE}", "dim"))
