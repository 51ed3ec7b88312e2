"""How long computing a report again would take, before it is begun.

A few records can name prompts of 10^12 tokens; predicting their prefix-cache hits walks over every block of them. A
few megabytes of observations can name 10^5 engine starts; whatever looks at each of them for each point takes hours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from bench.observe.observations import EngineStarted, GpuSample
from bench.report import folder_files as files
from bench.report.columns import Columns
from bench.report.prefix import MOST_PREDICTED
from bench.report.verify_files import Finding, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench.report.evidence import Evidence

STEPS_LIMIT: Final = 40_000_000
"""Places where a hit can end in all prompts, and tokens of all replies, of one run: the most requests that are
predicted, of 10,000 tokens with a place every 60 and replies of 100, take 27 million; each takes some 2 us."""
PLACES_LIMIT: Final = 2_000
"""Points of all engine starts together."""
CLAIMS_LIMIT: Final = 1_000
WALK_LIMIT: Final = 50_000_000
"""Observations times points: some rules look at every event for every point."""
GPUS_LIMIT: Final = 64
"""Of one host; each has its charts."""


def check_work(evidence: Evidence) -> None:
    """Refuses evidence that no measurement has.

    Raises:
        RefusedError: it names runs, points or GPUs that there are not, or its prompts and replies are longer than all
            requests that are predicted could have together.
    """
    columns = Columns.of(evidence.records)
    _check_places(evidence, columns)
    _check_prompts(evidence, columns)


def _check_places(evidence: Evidence, columns: Columns) -> None:
    load, seen = evidence.recipe.load, evidence.observations
    points = len(load.ladder)
    if load.runs * points > PLACES_LIMIT:
        _refuse(
            files.RECIPE, f"asks for {load.runs:,} runs of {points:,} points; a report has at most {PLACES_LIMIT:,}"
        )
    if len(evidence.recipe.claims) > CLAIMS_LIMIT:
        _refuse(files.RECIPE, f"holds {len(evidence.recipe.claims):,} claims; a report has at most {CLAIMS_LIMIT:,}")
    if load.runs * points * len(seen) > WALK_LIMIT:
        _refuse(files.OBSERVATIONS, f"has {len(seen):,} lines for {load.runs * points:,} points; no report has as many")
    recipe_has = "the recipe has {:,}, counted from 0"
    _within(files.OBSERVATIONS, "run", {each.run for each in seen}, load.runs, recipe_has)
    _within(files.OBSERVATIONS, "point", {each.point for each in seen if hasattr(each, "point")}, points, recipe_has)
    _within(files.RECORDS, "run", np.unique(columns.run).tolist(), load.runs, recipe_has)
    _within(files.RECORDS, "point", np.unique(columns.point).tolist(), points, recipe_has)
    gpus = {each.index for each in seen if isinstance(each, GpuSample)}
    _within(files.OBSERVATIONS, "GPU", gpus, GPUS_LIMIT, "no host has {:,}")


def _check_prompts(evidence: Evidence, columns: Columns) -> None:
    sizes = {seen.run: seen.block_size for seen in evidence.observations if isinstance(seen, EngineStarted)}
    # Sums as floats: the tokens of a hostile file can add up to more than 64 bits.
    before = np.concatenate(([0.0], np.cumsum(columns.segment_tokens, dtype=np.float64)))
    prompts = before[columns.segment_start[1:]] - before[columns.segment_start[:-1]]
    segments = np.diff(columns.segment_start).astype(np.float64)
    replies = columns.requested.astype(np.float64) + np.nan_to_num(columns.completion)
    for run, size in sizes.items():
        rows = columns.run == run
        unit = min(max(1, size or 1), _match_unit(evidence))
        steps = float(prompts[rows].sum() / unit + segments[rows].sum() + replies[rows].sum())
        if rows.sum() <= MOST_PREDICTED and steps > STEPS_LIMIT:
            _refuse(
                files.RECORDS,
                f"names prompts and replies of {steps:.3g} cache blocks and tokens in run {run}; no run has those",
            )


def _match_unit(evidence: Evidence) -> int:
    """Tokens between two places where a hit can end, if the recipe sets it inside of blocks; else no limit."""
    unit = evidence.recipe.engine.flags.get("prefix_match_unit")
    return unit if isinstance(unit, int) and unit > 0 else 1 << 62


def _within(file: str, what: str, found: Iterable[int], count: int, why: str) -> None:
    strange = sorted(number for number in found if not 0 <= number < count)
    if strange:
        _refuse(file, f"names {what} {strange[0]}; {why.format(count)}")


def _refuse(file: str, reason: str) -> None:
    raise RefusedError(Finding(file, reason))
