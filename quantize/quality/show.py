"""The summary, for people: Markdown that also reads well as plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from quantize.quality.result import Quality, Slice
    from quantize.quality.served import EngineFacts, Interval, Served

_MARKS: Final = {"passed": "ok", "failed": "FAILED", "no information": "--"}


def markdown(quality: Quality | None, served: Served | None) -> str:
    """The whole summary; one of the two is there."""
    title = quality.title if quality else served.title if served else ""
    parts = [f"# {title}", ""]
    if served is not None:
        parts += list(_served(served))
    if quality is not None:
        parts += list(_quality(quality))
    return "\n".join(parts).rstrip() + "\n"


def _served(served: Served) -> Iterator[str]:
    engine = served.engine
    yield f"## Served: {served.outcome}"
    yield ""
    if served.stand_in:
        yield f"Served was {served.stand_in}: this says nothing of the engine's own quantized path."
        yield ""
    yield from _table(
        ("check", "", "what was found"),
        [(check.name, _MARKS[check.outcome], check.detail) for check in served.checks],
    )
    start = "was there already" if engine.ready_s is None else f"ready after {engine.ready_s:.0f} s"
    yield f"vLLM {engine.version or '(version unknown)'}, {start}."
    if engine.moe_line:
        yield f"Its log: {engine.moe_line}"
    if engine.kv_scales is not None:
        yield f"Scales of the KV cache: {_kv_scales(engine)}"
    yield ""
    drafts = served.acceptance
    if drafts.quantized is not None:
        reference = drafts.reference.rates if drafts.reference else ()
        rows = []
        for position, rate in enumerate(drafts.quantized.rates):
            change = drafts.rates[position] if position < len(drafts.rates) else None
            other = f"{reference[position]:.3f}" if position < len(reference) else "--"
            rows.append((str(position + 1), f"{rate:.3f}", other, _interval(change, "{:+.3f}")))
        yield from _table(("draft", "accepted", "reference", "difference"), rows)


def _kv_scales(engine: EngineFacts) -> str:
    """Whose they are, and what follows."""
    words = "the target's are 1.0, as if the checkpoint had none."
    if engine.kv_scales == "checkpoint":
        words = "the target's are the checkpoint's."
    if engine.kv_scales_drafter == "1.0":
        return f"{words} The MTP head's are 1.0: that can cost accepted drafts, and decides no token."
    return f"{words} The MTP head's are the checkpoint's." if engine.kv_scales_drafter else words


def _quality(quality: Quality) -> Iterator[str]:
    yield "## Loss"
    yield ""
    if quality.weights_only:
        yield "Only the weights are quantized here; activations and KV cache are BF16: this is not the served loss."
        yield ""
    slices = [quality.all, *quality.roles, *quality.positions]
    names = ["all", *(f"{part.name} tokens" for part in quality.roles), *(f"token {p.name}" for p in quality.positions)]
    yield from _table(
        ("", "tokens", "perplexity BF16", "quantized", "recovery %"),
        [(name, f"{part.tokens:,}", *_perplexity(part)) for name, part in zip(names, slices, strict=True)],
    )
    yield from _table(
        ("", "KL, nats a token, at least", "rest", "same first token", "right, of BF16's %"),
        [(name, *_divergence(part)) for name, part in zip(names, slices, strict=True)],
    )
    yield (
        f"{quality.texts} held-out calls (seed {quality.seed}), by {quality.method}, the {quality.top_k} most likely "
        "tokens of each position. Brackets: 95 %, whole calls drawn again, both models paired. Recovery: perplexity of "
        "BF16 over that of the quantized."
    )
    yield (
        "The divergence is a lower bound: tokens not known of both models are one bucket, whose probability under BF16 "
        f"is `rest`. Were all of it as badly off as the worst known token: {_number(quality.all.divergence_ceiling)}."
    )


def _perplexity(part: Slice) -> tuple[str, str, str]:
    return _number(part.perplexity_reference), _number(part.perplexity_quantized), _interval(part.recovery, "{:.2f}")


def _divergence(part: Slice) -> tuple[str, str, str, str]:
    return (
        _interval(part.divergence, "{:.4f}"),
        "--" if part.rest is None else f"{part.rest:.1e}",
        _interval(part.same_first, "{:.3f}"),
        _interval(part.accuracy_recovery, "{:.2f}"),
    )


def _number(value: float | None) -> str:
    return "--" if value is None else f"{value:,.4f}"


def _interval(interval: Interval | None, form: str) -> str:
    if interval is None:
        return "--"
    value = form.format(interval.value)
    if interval.low is None or interval.high is None:
        return value
    return f"{value} [{form.format(interval.low)}, {form.format(interval.high)}]"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns padded, so that the source is a table too; the last one is left as it is."""
    widths = [max(len(row[place]) for row in (header, *rows)) for place in range(len(header) - 1)]

    def line(cells: Sequence[str]) -> str:
        padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=False)]
        return f"| {' | '.join([*padded, cells[-1]])} |"

    yield line(header)
    yield f"|{'|'.join('-' * (width + 2) for width in [*widths, len(header[-1])])}|"
    yield from (line(row) for row in rows)
    yield ""
