"""What else is known of an operating point: how many tokens its prompts left to compute, and what the card could do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bench.errors import StreamproofError
from bench.explain.preflight.command import plan

if TYPE_CHECKING:
    from bench.explain.preflight.plan import Basis
    from bench.explain.steps.read import Source
    from bench.report.model import PointReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What preflight says of the recipe, or why it says nothing.

    Attributes:
        basis: the plan; None where there is none, or none with floors.
        why_not: in words; empty where there are floors.
    """

    basis: Basis | None
    why_not: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Floors:
    """Lower bounds by the roofline of the card: see `bench.explain.preflight.floors`.

    Attributes:
        card: its name.
        sequences: that decode together: the point's mean requests in flight on each rank.
        decode_s: of a step that decodes them.
        prefill_tokens: of a prompt that are computed, as planned: primed, nothing evicted.
        prefill_s: of computing these, in one step.
    """

    card: str
    sequences: int
    decode_s: float
    prefill_tokens: float
    prefill_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Of one point.

    Attributes:
        prompt_tokens: mean of all its prompts, priming included.
        counted: of these, mean tokens that the engine computed, by its own counters; None where it did not tell.
        predicted: the same, predicted from the prompts; None where it cannot be.
        tokens_a_chunk: of the replies in the window, by usage; None where they have none.
        floors: None where there are none.
    """

    prompt_tokens: float
    counted: float | None
    predicted: float | None
    tokens_a_chunk: float | None
    floors: Floors | None


def planned_for(source: Source) -> Planned:
    """The plan of the recipe that was measured."""
    if source.report.engine_kind == "external":
        return Planned(basis=None, why_not="this server was not started here: what it runs on is not known")
    if source.recipe.hardware.kind == "cpu":
        return Planned(basis=None, why_not="they are of GPUs, and this ran on a CPU")
    try:
        return Planned(basis=plan(source.recipe, offline=True), why_not="")
    except StreamproofError as error:
        return Planned(basis=None, why_not=error.message)


def known_of(source: Source, point: PointReport, planned: Planned, *, tokens: float | None) -> Known:
    """What is known of a point.

    Args:
        source: the report.
        point: of it.
        planned: from `planned_for`.
        tokens: a chunk.
    """
    measurement, cache = source.measurement, point.prefix_cache
    prompts = sum(_sent(source, run, point.index) for run in measurement.runs_of(point.index))

    def computed(hits: int | None) -> float | None:
        return None if hits is None or not prompts else (cache.prompt_tokens - hits) / prompts

    return Known(
        prompt_tokens=cache.prompt_tokens / prompts if prompts else 0.0,
        counted=computed(cache.measured_hit_tokens),
        predicted=computed(cache.predicted_hit_tokens),
        tokens_a_chunk=tokens,
        floors=_floors(planned, point, source.recipe.ranks),
    )


def _sent(source: Source, run: int, point: int) -> int:
    """Prompts of a point that were sent, priming included."""
    rows = source.measurement.all_of(run, point)
    return int((~np.isnan(source.measurement.columns.sent[rows])).sum())


def _floors(planned: Planned, point: PointReport, ranks: int) -> Floors | None:
    basis = planned.basis
    if basis is None or basis.machine is None or not point.mean_in_flight:
        return None
    request, machine = basis.request, basis.machine
    sequences = min(max(1, round(point.mean_in_flight / ranks)), basis.settings.max_num_seqs)
    return Floors(
        card=basis.recipe.hardware.gpu or "",
        sequences=sequences,
        decode_s=machine.decode(sequences, request.prompt).seconds,
        prefill_tokens=request.computed,
        prefill_s=machine.prefill(request.computed, request.prompt - request.computed / 2).seconds,
    )
