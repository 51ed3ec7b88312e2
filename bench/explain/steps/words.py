"""What `just steps` says in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.explain.steps.kinds import OCCASIONS
from bench.explain.steps.split import HILL, TWICE
from bench.report.render import words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.explain.steps.analysis import Analysis, PointSteps
    from bench.explain.steps.kinds import OneKind
    from bench.explain.steps.parts import Name, Part

NAMES: Final[dict[Name, str]] = {
    "client": "sending",
    "first token": "first token",
    "long": "long gaps",
    "short": "short gaps",
    "gaps": "gaps",
    "rare": "rare gaps",
    "together": "together",
    "end": "the end",
}

ONE: Final[dict[OneKind, str]] = {
    "too few": f"too few to tell two kinds apart (about the median of each must lie {HILL})",
    "no valley": "no valley between shorter and longer ones (no step has a prompt, most have one, or they are of all "
    "lengths)",
    "too alike": f"the longer half takes less than {TWICE:g} times as long as the shorter",
    "too seldom": f"longer ones came on fewer than {OCCASIONS} occasions",
}

READING: Final = (
    "A gap between chunks is a step of the engine. A long one computes somebody's prompt, as a rule, while all replies "
    "in flight wait; a short one only decodes. Whose time it is, GPU or host, chunks do not tell."
)


def headline(point: PointSteps) -> str:
    """The point in a line."""
    if not point.replies or point.e2e_s is None or point.chunks is None:
        return f"{point.label}: no complete reply in the window of {words.plural(point.requests, 'request')}"
    failed = point.requests - point.replies
    left_out = f" ({failed:,} of {point.requests:,} requests failed and are left out)" if failed else ""
    return (
        f"{point.label}: {words.seconds(point.e2e_s)} for a reply on average, "
        f"{words.plural(point.replies, 'reply', 'replies')}{left_out}"
    )


def notes(point: PointSteps) -> Iterator[str]:
    """What stands below the table of a point, a sentence each."""
    kinds = point.kinds
    if kinds is not None and kinds.cut_s is not None:
        yield f"Long gaps are those over {words.seconds(kinds.cut_s)}, in the valley between the two kinds."
    elif kinds is not None and kinds.one is not None:
        yield f"Gaps are of one kind: {ONE[kinds.one]}."
    yield from _floors(point)
    if point.stood is not None:
        stood = point.stood.standstill
        run = f" of run {point.stood.run}" if point.runs > 1 else ""
        yield (
            f"Longest standstill, no chunk for anybody: {words.seconds(stood.seconds)}, "
            f"{words.clock(point.stood.at_s)} into the window{run}, {stood.in_flight:,} in flight."
        )
    yield from _prompts(point)


def close(analysis: Analysis) -> Iterator[str]:
    """What stands below all points."""
    if analysis.stream_interval > 1:
        yield (
            f"This engine was told to send a chunk for every {analysis.stream_interval} tokens (stream_interval): a "
            "gap is several steps, not one."
        )
    yield READING
    if analysis.no_floors:
        yield f"No floors: {analysis.no_floors.removesuffix('.')}."
    yield (
        "Next: just graphs (did a CUDA graph serve these steps?) and just preflight (floors, and tokens that a prompt "
        "leaves to compute). Signer and figures: just verify."
    )


def _floors(point: PointSteps) -> Iterator[str]:
    floors = point.known.floors
    if floors is None:
        return
    long, short = part(point, "long"), part(point, "short") or part(point, "gaps")
    if long is not None:
        yield (
            f"A long gap takes {words.seconds(long.p50_s)} (p50); computing a whole prompt "
            f"({floors.prefill_tokens:,.0f} tokens) takes the {floors.card} {words.seconds(floors.prefill_s)} or more."
        )
    if short is not None:
        kind = "short gap" if short.name == "short" else "gap"
        yield (
            f"A {kind} takes {words.seconds(short.p50_s)} (p50); a step that decodes "
            f"{words.plural(floors.sequences, 'sequence')} takes the {floors.card} {words.seconds(floors.decode_s)} or "
            "more."
        )


def _prompts(point: PointSteps) -> Iterator[str]:
    known = point.known
    counted = known.counted if known.counted is not None else known.predicted
    computed = ""
    if counted is not None:
        how = "counted by the engine" if known.counted is not None else "predicted"
        computed = f", {counted:,.0f} of them computed ({how}, priming included)"
    chunk = f"; {known.tokens_a_chunk:.2f} tokens a chunk" if known.tokens_a_chunk is not None else ""
    if known.prompt_tokens:
        yield f"A prompt has {known.prompt_tokens:,.0f} tokens{computed}{chunk}."


def part(point: PointSteps, name: Name) -> Part | None:
    """A part of a point by its name; None where it has none."""
    return next((each for each in point.parts if each.name == name), None)
