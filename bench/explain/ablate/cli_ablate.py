"""`just ablate`: its options and its help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def ablate(
    target: Annotated[str | None, typer.Argument(help="The full recipe: a target, or a file (.toml).")] = None,
    *,
    base: Annotated[
        str | None, typer.Option("--from", metavar="BASE", help="The recipe to start from, e.g. vanilla.")
    ] = None,
    factors: Annotated[
        str | None, typer.Option(help="Only these factors, by their short names and commas (see --dry-run).")
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override one value of the target, as for `repro`."),
    ] = None,
    base_overrides: Annotated[
        list[str] | None,
        typer.Option("--from-set", metavar="KEY=VALUE", help="Override one value of the base: a factor of your own."),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            metavar="added|removed", help="One direction: N + 1 configurations instead of 2 N + 2, and no shares."
        ),
    ] = None,
    together: Annotated[
        bool, typer.Option("--as-one", help="Switch all factors together, as one: recipe against recipe.")
    ] = False,
    blocks: Annotated[int, typer.Option(min=1, max=100, help="How often each configuration is run.")] = 3,
    seed: Annotated[int, typer.Option(help="Decides the order of the engine starts.")] = 1,
    engine: Annotated[str | None, typer.Option(metavar="docker|process", help="As for `repro`.")] = None,
    resident: Annotated[
        bool, typer.Option("--resident", help="Start all engines together, once, and measure them in turns.")
    ] = False,
    at_once: Annotated[
        int, typer.Option(min=2, max=16, metavar="N", help="With --resident: engines that fit beside each other.")
    ] = 2,
    memory_share: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="With --resident: share of the card for each; 0.98 / N by default."),
    ] = None,
    kv_gib: Annotated[
        float | None,
        typer.Option(metavar="GIB", min=0.1, help="With --resident: KV cache of each; what is left by default."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show factors, order and time.")] = False,
    resume: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Go on with an ablation that was interrupted.")
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Verify an ablation: every report, and the summary again from them."),
    ] = None,
    key: Annotated[
        list[Path] | None, typer.Option(help="With --check: public key (PEM) of a signer you trust.")
    ] = None,
    reports: Annotated[Path, typer.Option(help="Folder that the ablation's folder is made in.")] = Path("reports"),
    as_json: Annotated[bool, typer.Option("--json", help="Plan or summary as JSON, for scripts.")] = False,
) -> None:
    """Take a recipe apart: what does each factor bring, alone and beside all others?

    Factors are what differs between two recipes (flags that belong together are one). Each is added first to the base
    and removed last from the full recipe. Every block runs each configuration once, an engine start each, in random
    orders that favour none. Where both effects of a factor agree its share is given; where they differ by more than
    chance it interacts with the others, and no share is given. Ctrl-C keeps what is measured; `--resume` goes on.

    `--only removed` measures the target and the target without each factor; what is not among `--factors` stays as the
    target has it. `--only added` measures the base and the base with each. A value that contradicts another factor's
    (a prefix match unit that no longer divides the cache block, a largest graph above the largest step) is adapted,
    and told. `--as-one` takes nothing apart: it measures the base and the target in turns, which tells what all
    differences bring together.

    `--resident` pays for each engine start once: all engines run beside each other, and only one has load at any
    time. The intervals are then about these starts; how much starts differ is not in them.

    Exit codes: 0 done; 4 a block could not be measured; 130 interrupted.
    """
    from bench.cli import parse_overrides  # noqa: PLC0415  it imports this module
    from bench.explain.ablate import command, planning  # noqa: PLC0415  the heavy part
    from recipes.load import load_recipe  # noqa: PLC0415  as above

    if check is not None:
        raise typer.Exit(command.check(check, key or (), as_json=as_json))
    if resume is not None:
        raise typer.Exit(command.resume(resume, as_json=as_json))
    full = load_recipe(command.need(target, "TARGET"), parse_overrides(overrides))
    wanted = [slug.strip() for slug in (factors or "").split(",") if slug.strip()]
    plan = planning.plan_of(
        load_recipe(command.need(base, "--from"), parse_overrides(base_overrides)),
        full,
        wanted=wanted,
        together=together,
        blocks=blocks,
        seed=seed,
        engine=engine,
        only=only,
        residency=planning.residency(resident=resident, at_once=at_once, memory_share=memory_share, cache_gib=kv_gib),
    )
    if dry_run:
        raise typer.Exit(command.dry_run(plan, as_json=as_json))
    raise typer.Exit(command.ablate(plan, reports, as_json=as_json))
