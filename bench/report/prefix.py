"""Prefix-cache hits of each point: predicted from the prompts alone, and measured by the engine.

The prediction is `bench.workload.prefix_cache_bounds`; it sees all requests of one cache since its engine's start, and
is then summed over the requests of each point. Every rank (`bench.affinity`) has a cache of its own: each is predicted
from the requests that were pinned to it, and the sum over them is what the engine's counters sum to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from bench.affinity import ranks_of
from bench.report.counters import increase
from bench.report.disclosure import json_table
from bench.report.model import PrefixCache
from bench.workload.prefix_cache_bounds import HitPrediction, ServedPrompt
from bench.workload.prefix_cache_rules import CacheRules
from bench.workload.turn import Segment

if TYPE_CHECKING:
    from bench.observe.observations import EngineStarted
    from bench.report.measurement import Measurement
    from bench.report.seen import RunPoint
    from recipes.schema import Recipe

Predict: TypeAlias = Callable[[Sequence[ServedPrompt], CacheRules], Sequence[HitPrediction]]
"""Predicts the hits of all requests of one engine, in the order given."""

MOST_PREDICTED: Final = 100_000
"""Requests of one run: some ten seconds' work. A run of more is one of the client against a test server, whose cache
nobody asks about."""

OTHER_RULES: Final = frozenset({"mamba_cache_mode", "kv_transfer_config"})
"""Flags under which hits follow rules that nobody has modelled here."""

HYBRID: Final = {None: True, "align": True, "none": False}
"""Whether a model has recurrent layers beside attention, by what its engine says of its cache. One that says nothing
is of a report from before we asked, and those were all hybrid. In another mode hits follow other rules."""

DEFAULT_CHUNK_TOKENS: Final = 8192
"""vLLM's own max_num_batched_tokens for a server on an H100, H200 or B200, where the recipe sets none
(`EngineArgs.get_batch_defaults` in vllm/engine/arg_utils.py, 0.26.0)."""


CPU_SPLIT_TOKENS: Final = 128
"""What vLLM's CPU build steers prefill chunks by, unless it was started with a block size (rule 6 of
`bench.workload.prefix_cache_rules`)."""


@dataclass(frozen=True, slots=True)
class Hits:
    """Predicted hit tokens of a point.

    Attributes:
        expected: for requests that the engine looked up in the order in which they were sent.
        least, most: bounds that hold for any order.
    """

    expected: int
    least: int
    most: int


def predict(measurement: Measurement, how: Predict) -> dict[RunPoint, Hits]:
    """The predicted hits of each point of each run; a run whose engine does not say enough is left out."""
    predicted: dict[RunPoint, Hits] = {}
    for run, started in measurement.seen.started.items():
        points = [point for other, point in measurement.rows if other == run]
        if started.prefix_caching is False:
            predicted |= {(run, point): Hits(0, 0, 0) for point in points}
            continue
        rules = _rules(measurement.recipe, started)
        rows = np.concatenate([measurement.all_of(run, point) for point in points]) if points else np.empty(0, np.intp)
        rows = rows[~np.isnan(measurement.columns.sent[rows])]
        if rules is None or started.prefix_caching is None or not 0 < len(rows) <= MOST_PREDICTED:
            continue
        ranks = ranks_of(measurement.columns.stream[rows], measurement.recipe.ranks)
        each = np.zeros((len(rows), 3), dtype=np.int64)
        for rank in np.unique(ranks):
            hits = how(_served(measurement, rows[ranks == rank]), rules)
            each[ranks == rank] = [(hit.expected, hit.least, hit.most) for hit in hits]
        for point in points:
            expected, least, most = each[measurement.columns.point[rows] == point].sum(axis=0)
            predicted[run, point] = Hits(int(expected), int(least), int(most))
    return predicted


def measured(measurement: Measurement, run: int, point: int) -> float | None:
    """Hit tokens of a point by the engine's counters: each prompt counted once where the engine counts so."""
    once = increase(measurement, run, point, "prompt_tokens_cached")
    return increase(measurement, run, point, "prefix_hits") if once is None else once


def prefix_cache(measurement: Measurement, predicted: dict[RunPoint, Hits], point: int) -> PrefixCache:
    """Predicted and measured hits of a point, all runs together; null where one run does not know."""
    runs = measurement.runs_of(point)
    expected = [predicted[run, point].expected for run in runs if (run, point) in predicted]
    seen = [hits for run in runs if (hits := measured(measurement, run, point)) is not None]
    predicted_total = sum(expected) if len(expected) == len(runs) else None
    measured_total = round(sum(seen)) if len(seen) == len(runs) else None
    prompts = sum(_prompt_tokens(measurement, run, point) for run in runs)
    sizes = {started.block_size for run, started in measurement.seen.started.items() if run in runs}
    return PrefixCache(
        block_size=sizes.pop() if len(sizes) == 1 else None,
        predicted_hit_tokens=predicted_total,
        measured_hit_tokens=measured_total,
        prompt_tokens=prompts,
        predicted_rate=predicted_total / prompts if predicted_total is not None and prompts else None,
        measured_rate=measured_total / prompts if measured_total is not None and prompts else None,
    )


def _prompt_tokens(measurement: Measurement, run: int, point: int) -> int:
    """Tokens of all prompts that were sent at a point, priming included: by usage, or by our own count without it."""
    columns, rows = measurement.columns, measurement.all_of(run, point)
    rows = rows[~np.isnan(columns.sent[rows])]
    reported = columns.prompt[rows]
    return int(np.where(np.isnan(reported), columns.prompt_expected[rows], reported).sum())


def _rules(recipe: Recipe, started: EngineStarted) -> CacheRules | None:
    """The rules of the engine that served this recipe; None where they are not known."""
    if started.kind_of_engine == "external":  # the recipe's flags are not what it was started with
        return None
    if recipe.pinned_ranks != recipe.ranks:  # which cache a request met, only the engine's load balancer knows
        return None
    flags = recipe.engine.flags
    chunk = flags.get("max_num_batched_tokens", DEFAULT_CHUNK_TOKENS)
    drafts = json_table(flags.get("speculative_config")).get("num_speculative_tokens", 0)
    size = started.block_size
    unit = flags.get("prefix_match_unit", size)
    if not (isinstance(size, int) and isinstance(chunk, int) and isinstance(drafts, int) and isinstance(unit, int)):
        return None
    if not 0 < size <= chunk or drafts < 0 or not flags.keys().isdisjoint(OTHER_RULES):
        return None
    hybrid = HYBRID.get(started.mamba_cache_mode)
    if hybrid is None or unit < 1 or size % unit:  # of the last two no engine starts
        return None
    return CacheRules(
        block_size=size,
        hybrid=hybrid,
        chunk_tokens=chunk,
        draft_tokens=drafts,
        split_tokens=CPU_SPLIT_TOKENS if recipe.hardware.kind == "cpu" and "block_size" not in flags else None,
        match_unit=unit if unit != size else None,
    )


def _served(measurement: Measurement, rows: np.ndarray[tuple[int], np.dtype[np.intp]]) -> list[ServedPrompt]:
    columns = measurement.columns
    texts: dict[tuple[int, int], Segment] = {}
    served = []
    for row in rows.tolist():
        start, end = columns.segment_start[row], columns.segment_start[row + 1]
        pairs = zip(columns.segment_key[start:end].tolist(), columns.segment_tokens[start:end].tolist(), strict=True)
        tokens = columns.completion[row]
        served.append(
            ServedPrompt(
                segments=tuple(texts.setdefault(pair, Segment(*pair)) for pair in pairs),
                output_tokens=max(1, int(columns.requested[row] if np.isnan(tokens) else tokens)),
                start_s=float(columns.sent[row]),
                end_s=float(columns.done[row]),
                complete=not np.isnan(columns.first_token[row]),
            )
        )
    return served
