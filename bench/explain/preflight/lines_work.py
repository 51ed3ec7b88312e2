"""The lines of a plan that are about work: prefix hits, the cost of capturing, and floors of time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.explain.graphs.cost import CAPTURE_FIXED_S, CAPTURE_PER_GRAPH_S, CAPTURE_SOURCE, capture_seconds
from bench.explain.preflight.floors import reply_floor
from bench.explain.preflight.lasting import lasting_of
from bench.explain.preflight.plan import Line
from bench.explain.preflight.prefix import MANY_STEPS
from bench.report.render.words import percent, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bench.explain.preflight.plan import Basis
    from bench.explain.preflight.start_log import StartFacts
    from bench.observe.lasting import Lasting

_ROOFLINE: Final = "a floor, no prediction: max(bytes / bandwidth, operations / peak), Williams et al. 2009"
_CLOSED: Final = "a floor, no prediction: asymptotic bounds of a closed system, Denning and Buzen 1978"
_OTHERS: Final = "--blocks tries other block sizes"


def prefix_lines(basis: Basis, hit_rate: float | None) -> Iterator[Line]:
    """What the prefix cache will serve."""
    prefix, recipe = basis.prefix, basis.recipe
    if not basis.settings.prefix_caching:
        how = "prefix caching is off (the default for hybrid models)"
    elif prefix.rate is None:
        how = f"an engine does not start with blocks of {basis.cache.block_size:,} and these settings"
    else:
        how = (
            f"{prefix.prompts - prefix.computed:,.0f} of {prefix.prompts:,.0f} tokens a prompt, primed, nothing evicted"
        )
    yield Line(
        key="prefix.rate",
        label="prefix hits of the workload",
        value=prefix.rate,
        unit="share",
        how=how,
        source="bench.workload.prefix_cache, by the rules of vLLM 0.26.0; measured ones have the priming in them",
        measured=hit_rate,
    )
    if (lasting := lasting_of(basis)) is not None:
        yield _lasting_line(lasting)
    if prefix.steps is not None:
        yield _steps_line(basis, prefix.steps)
    if not basis.settings.prefix_caching or prefix.rate is None:
        return
    drops = ", less the last one (MTP)" if basis.settings.draft_tokens else ""
    if not prefix.next_length:
        yield Line(
            key="prefix.shared",
            label="of a shared prefix, reused",
            value=prefix.shared_hit,
            unit="tokens",
            how=f"of {recipe.workload.shared_prefix_tokens:,} by the first prompt of a call, primed, in units of "
            f"{basis.settings.prefix_match_unit}{drops}",
            source="bench.workload.prefix_cache_rules, 8",
        )
        return
    yield Line(
        key="prefix.shared",
        label="of a shared prefix, reused",
        value=prefix.shared_hit,
        unit="tokens",
        how=f"whole blocks of {basis.cache.block_size:,} in {recipe.workload.shared_prefix_tokens:,}{drops}",
        source="bench.workload.prefix_cache_rules, 2 and 3",
    )
    yield Line(
        key="prefix.next",
        label="a prefix that gives more",
        value=prefix.next_length,
        unit="tokens",
        how=f"{prefix.next_hit:,} reused from {prefix.next_length:,} on; {prefix.enough:,} give what "
        f"{recipe.workload.shared_prefix_tokens:,} give",
        source="as above",
    )


def _lasting_line(lasting: Lasting) -> Line:
    last = f"in the last of {lasting.requests:,} requests, {lasting.at_once} at once"
    if lasting.lasts:
        how = f"{last}, as at first: {lasting.blocks:,} blocks keep what is used again"
        how += "" if lasting.full else ", and some were never used"
    else:
        how = f"{last}; {percent(lasting.first)} until request {lasting.lost_after:,}, the first for which the "
        how += f"{lasting.blocks:,} blocks did not suffice"
    return Line(
        key="prefix.lasting",
        label="prefix hits that last",
        value=lasting.rate,
        unit="share",
        how=how,
        source="bench.workload.prefix_cache, prompts beside each other; vLLM's own scheduler agrees (tests)",
    )


def _steps_line(basis: Basis, steps: float) -> Line:
    prefix, settings = basis.prefix, basis.settings
    unit, draft = settings.prefix_match_unit or basis.cache.block_size, settings.draft_tokens
    if not settings.prefix_caching:
        course = "nothing is cached"
    elif steps == 1:
        course = "after hits, all at once"
    elif unit < basis.cache.block_size:
        course = f"after hits, to the prompt's last multiple of {unit}, then the rest"
    else:
        course = f"after hits, to the prompt's last block boundary{' but one (MTP)' if draft else ''}, then the rest"
    return Line(
        key="prefix.steps",
        label="prefill steps of a prompt",
        value=steps,
        unit="steps",
        how=f"{prefix.computed:,.0f} tokens in {steps:.1f} steps: {course}; at most "
        f"{settings.max_num_batched_tokens:,} tokens a step, one request at a time"
        + (f"; {_OTHERS}" if settings.prefix_caching and steps > MANY_STEPS else ""),
        source="bench.workload.prefix_cache_rules, 6 and 8",
    )


def capture_lines(basis: Basis, facts: StartFacts) -> Iterator[Line]:
    """What capturing the graphs costs at start."""
    if basis.card is None or not basis.captures.graphs:
        return
    yield Line(
        key="graphs.capture",
        label="capturing them (estimate)",
        value=capture_seconds(basis.captures.graphs),
        unit="seconds",
        how=f"{CAPTURE_FIXED_S:g} s + {basis.captures.graphs} graphs x {CAPTURE_PER_GRAPH_S:g} s",
        source=CAPTURE_SOURCE,
        measured=facts.capture_s,
        rounding=0.5,
    )


def floor_lines(basis: Basis, means: Mapping[str, float]) -> Iterator[Line]:
    """Floors of a step and of a reply at every point of the ladder.

    Args:
        basis: of the plan.
        means: measured mean E2E in seconds, by the label of the point.
    """
    machine, request, card = basis.machine, basis.request, basis.card
    if machine is None or card is None:
        return
    limits = f"{card.bandwidth_tb_s:g} TB/s, {machine.flops / 1e12:,.0f} TFLOPS"
    for sequences in sorted({1, min(16, basis.settings.max_num_seqs), basis.settings.max_num_seqs}):
        step = machine.decode(sequences, request.prompt)
        yield Line(
            key=f"floor.decode.{sequences}",
            label=f"decoding step, {plural(sequences, 'sequence')}",
            value=step.seconds,
            unit="seconds",
            how=f"{step.moved / 1e9:,.1f} GB, {step.operations / 1e12:,.2f} TFLOP at {limits}: {step.bound}",
            source=_ROOFLINE,
            floor=True,
        )
    prefill = machine.prefill(request.computed, request.prompt - request.computed / 2)
    yield Line(
        key="floor.prefill",
        label="prefill of one prompt",
        value=prefill.seconds,
        unit="seconds",
        how=f"{request.computed:,.0f} tokens that are no hits: {prefill.moved / 1e9:,.1f} GB, "
        f"{prefill.operations / 1e12:,.1f} TFLOP: {prefill.bound}",
        source=_ROOFLINE,
        floor=True,
    )
    gap = basis.recipe.load.turn_gap.mean_s
    accepted = f"{request.acceptance or basis.settings.draft_tokens + 1:g} tokens a step" + (
        "" if request.acceptance or not basis.settings.draft_tokens else " (all drafts accepted)"
    )
    for index, point in enumerate(basis.recipe.load.ladder):
        floor = reply_floor(machine, request, point, gap, basis.recipe.ranks)
        own = f"{machine.own(request) * 1000:.1f} ms of the card a request"
        yield Line(
            key=f"floor.e2e.{index}",
            label=f"mean E2E, {point.label}",
            value=floor,
            unit="seconds",
            how=f"alone {machine.alone(request) * 1000:.0f} ms with {accepted}; {own}"
            if floor is not None
            else f"{own}: more than the card has",
            source=_CLOSED,
            measured=means.get(point.label),
            floor=True,
        )
