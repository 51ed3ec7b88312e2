"""`just ablate`: runs what is missing of a plan, summarizes, signs, shows."""

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
from bench.explain.ablate.course import run_all, run_resident
from bench.explain.ablate.planning import objections
from bench.explain.ablate.show import shown, shown_plan
from bench.report.folder_files import canonical_json
from bench.report.keys import own_signer, trusted_keys
from bench.report.verify_show import ALLOW_LIST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.explain.ablate.course import Begin, Say, Start
    from bench.explain.ablate.outcome import Ablation
    from bench.explain.ablate.plan import AblationPlan
    from recipes.schema import Recipe


def dry_run(plan: AblationPlan, *, as_json: bool) -> Exit:
    """Shows a plan."""
    if as_json:
        sys.stdout.write(canonical_json(plan.model_dump(mode="json", exclude_none=True)).decode())
    else:
        Console(highlight=False).print(shown_plan(plan, objections(plan)))
    return Exit.OK


def ablate(
    plan: AblationPlan, reports: Path, start: Start | None = None, *, begin: Begin | None = None, as_json: bool
) -> Exit:
    """Runs a new ablation.

    Args:
        plan: of it.
        reports: folder of all reports.
        start: runs one recipe; by default as `just repro` does.
        begin: starts engines that stay, for a plan with such; by default as `just repro` does.
        as_json: print the summary as JSON.

    Returns:
        0; 130 where it was interrupted; 4 where a block could not be measured.

    Raises:
        StreamproofError: an engine cannot be started.
    """
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    folder = reports / "ablation" / f"{stamp}-{plan.base.target}-to-{plan.target.target}"
    folders.begin(folder, plan)
    return resume(folder, start, begin=begin, as_json=as_json)


def resume(folder: Path, start: Start | None = None, *, begin: Begin | None = None, as_json: bool) -> Exit:
    """Goes on with an ablation; likewise."""
    plan = folders.read_plan(folder)
    out = Console(highlight=False, stderr=True)

    def say(line: str) -> None:
        out.print(Text(line))

    say(f"ablation in {folder}")
    for line in objections(plan):
        say(line)
    own_signer()  # made before anything is measured, so that the reports are trusted here
    code = Exit.OK
    try:
        if plan.resident:
            run_resident(folder, plan, begin or engines_begin(plan.engine, quiet=as_json, say=say), say)
        else:
            run_all(folder, plan, start or engine_start(plan.engine, quiet=as_json), say)
    except KeyboardInterrupt:
        code = Exit.INTERRUPTED
        say(f"Interrupted. What is measured is kept; to go on: just ablate --resume {folder}")
    except StreamproofError:
        say(f"What is measured is kept. To go on: just ablate --resume {folder}; a factor that cannot be")
        say("served by itself can be left out of a new ablation with --factors.")
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


def engines_begin(engine: str | None, *, quiet: bool, say: Say) -> Begin:
    """Starts engines together, as `just repro` starts one."""
    from bench.explain.ablate.residents import residents  # noqa: PLC0415  the heavy part

    return partial(residents, engine=engine, quiet=quiet, say=say)


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
