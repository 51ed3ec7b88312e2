"""`just preflight TARGET`: plans, shows, and says by its exit code whether the engine can start."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Final

from rich.console import Console

from bench.errors import Exit, UsageError
from bench.explain.preflight.blocks import blocks_of
from bench.explain.preflight.gpus import card_named
from bench.explain.preflight.lines_memory import (
    cache_lines,
    graph_lines,
    parallel_lines,
    spending_lines,
    weight_lines,
)
from bench.explain.preflight.lines_work import capture_lines, floor_lines, prefix_lines
from bench.explain.preflight.locate import model_of
from bench.explain.preflight.past import past_of
from bench.explain.preflight.plan import Basis, basis_of
from bench.explain.preflight.show import Section, as_data, shown
from bench.explain.preflight.start_log import StartFacts
from bench.explain.preflight.verdicts import verdicts_of, worst
from bench.observe.gpu import Gpus

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench.explain.preflight.past import Past
    from bench.observe.gpu import Gpu
    from recipes.schema import Recipe

_QUIET_S: Final = 2.0
"""Seconds between two words on how far a search is."""


def preflight(  # noqa: PLR0913  the command's options
    recipe: Recipe,
    *,
    gpu: str | None = None,
    config: Path | None = None,
    against: Path | None = None,
    offline: bool = False,
    blocks: bool = False,
    as_json: bool = False,
) -> Exit:
    """Plans a recipe and prints the plan.

    Args:
        recipe: resolved.
        gpu: card to plan for; the recipe's own by default.
        config: a `config.json` instead of the checkpoint's own.
        against: a report's folder or an engine's log to set beside it; by default the newest report of this engine.
        offline: do not ask the hub.
        blocks: try other cache block sizes and match units, too.
        as_json: for scripts.

    Returns:
        0 where it fits or is tight, 1 where it cannot start.

    Raises:
        StreamproofError: no plan can be made; says why.
    """
    basis = plan(recipe, gpu=gpu, config=config, offline=offline)
    # A past report is of the recipe's own card and model: beside another one it would be no error of the plan.
    as_written = gpu is None and config is None
    past = past_of(recipe, against) if against or as_written else None
    tried = blocks_of(basis, progress()) if blocks else None
    sections, verdicts = sections_of(basis, past), verdicts_of(basis, tried)
    where = past.where if past else None
    if as_json:
        sys.stdout.write(json.dumps(as_data(basis, sections, verdicts, where, tried), indent=2, allow_nan=False) + "\n")
    else:
        Console().print(shown(basis, sections, verdicts, where, tried))
    return Exit.FAILURE if worst(verdicts) == "cannot" else Exit.OK


def plan(recipe: Recipe, *, gpu: str | None = None, config: Path | None = None, offline: bool = False) -> Basis:
    """The plan of a recipe, without lines and verdicts; arguments as above."""
    if recipe.hardware.kind == "cpu":
        if gpu is not None:
            raise UsageError(
                f"{recipe.target} runs on the CPU; --gpu {gpu} has nothing to plan for.", remedy="Leave --gpu out."
            )
        return basis_of(recipe, model_of(recipe.checkpoint, config=config, offline=offline), None)
    card = card_named(gpu or recipe.hardware.gpu or "", _devices())
    return basis_of(recipe, model_of(recipe.checkpoint, config=config, offline=offline), card)


def sections_of(basis: Basis, past: Past | None) -> tuple[Section, ...]:
    """The lines of a plan, with what was measured beside them."""
    facts = past.facts if past else StartFacts()
    return (
        Section("GPUs", tuple(parallel_lines(basis))),
        Section("Weights", tuple(weight_lines(basis, facts))),
        Section("CUDA graphs", (*graph_lines(basis, facts), *capture_lines(basis, facts))),
        Section("Memory of the card", tuple(spending_lines(basis, facts))),
        Section("KV cache", tuple(cache_lines(basis, facts))),
        Section("Prefix cache", tuple(prefix_lines(basis, past.hit_rate if past else None))),
        Section("Floors of time", tuple(floor_lines(basis, past.means if past else {}))),
    )


def progress(now: Callable[[], float] = time.monotonic) -> Callable[[int, int], None]:
    """Something that says on standard error how far a search is, every two seconds: a short one says nothing."""
    said_s = now()

    def say(done: int, total: int) -> None:
        nonlocal said_s
        if now() - said_s >= _QUIET_S:
            said_s = now()
            sys.stderr.write(f"cache blocks: {done:,} of {total:,} pairs tried\n")

    return say


def _devices() -> tuple[Gpu, ...]:
    with Gpus() as gpus:
        return gpus.describe()
