"""`just preflight`: its options and its help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recipes.load import load_recipe


def preflight(
    target: Annotated[
        str, typer.Argument(help="A target (see `recipes`), or the path of a recipe of your own (.toml).")
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Override one value of the recipe. May be given several times."
        ),
    ] = None,
    *,
    gpu: Annotated[str | None, typer.Option(metavar="H200|B200", help="Plan for this card instead.")] = None,
    config: Annotated[
        Path | None, typer.Option(help="A model's config.json (or its folder) instead of the checkpoint's own.")
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            help="A report's folder or an engine's log: its measured values stand beside the plan. By default the "
            "newest report of this engine."
        ),
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Do not ask the hub for the model's config.json.")] = False,
    blocks: Annotated[
        bool,
        typer.Option(
            "--blocks",
            help="Try other cache block sizes and prefix match units on the workload (some seconds), and show those "
            "that no other beats in both tokens to compute and prefill steps of a prompt. `block_size` and "
            "`prefix_match_unit` are engine flags.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The plan as JSON, for scripts.")] = False,
) -> None:
    """Plan a target before a GPU is touched: memory, cache blocks, CUDA graphs, prefix hits, steps, floors of time.

    Every line says its formula and source; where a start was measured, its value and the error stand beside it. Exit
    codes: 0 it fits, or is tight; 1 it cannot start, and the verdict names the flag to change; 2 wrong usage.
    """
    from bench.cli import parse_overrides  # noqa: PLC0415  it registers this command
    from bench.explain.preflight.command import preflight as plan  # noqa: PLC0415  the heavy part

    recipe = load_recipe(target, parse_overrides(overrides))
    code = plan(recipe, gpu=gpu, config=config, against=against, offline=offline, blocks=blocks, as_json=as_json)
    raise typer.Exit(code)
