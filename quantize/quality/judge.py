"""From what the two sides showed to the checks of gate 8. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from bench.stats.ties import tie_limit
from quantize.quality.served import CHECKS, Acceptance, Check, EngineFacts, Served
from quantize.quality.serving import USEFUL_ACCEPTANCE, acceptance

if TYPE_CHECKING:
    from quantize.quality.result import Quality
    from quantize.quality.served import CheckName, LoadedTensors, Outcome, Repeat
    from quantize.quality.side import Side

TRACKED: Final = '{"enable_weights_track":true}'
METHOD: Final = "modelopt_fp4"
"""What a single-format NVFP4 checkpoint must be served with."""
LEAST_TOKENS_A_STEP: Final = 0.9
"""Of the reference's. A head that lost its weights falls to 1 / (tokens a step), a third or less; a sound one moves by
a few percent, because its hidden states do."""
LEAST_RECOVERY: Final = 95.0
"""Percent of the reference's perplexity. Published NVFP4 builds of this family lose about 2 % (wikitext-2); a wrong
scale or a lost expert loses many times that."""
USEFUL_ACCURACY: Final = 0.05
"""A model that finds fewer of the text's tokens the most likely ones knows nothing that quantization could take away:
random weights find one in as many as the vocabulary has."""


def judge(  # noqa: PLR0913  what a verdict rests on
    quantized: Side,
    reference: Side | None,
    quality: Quality | None,
    *,
    title: str,
    real: bool,
    stand_in: str | None,
) -> Served | None:
    """The outcome of gate 8.

    Args:
        quantized: the side that was served.
        reference: the other one, where it was measured.
        quality: both beside each other, where they were scored.
        title: of the result.
        real: the weights are.
        stand_in: what was served instead of the checkpoint, see `Served`.

    Returns:
        None where nothing was served: with transformers.
    """
    if quantized.replies is None or quantized.repeat is None or quantized.engine is None:
        return None
    seed = quantized.settings.seed
    drafts = acceptance(_array(quantized), _array(reference), seed=seed)
    found: dict[CheckName, tuple[Outcome, str]] = {
        "load": _load(quantized),
        "experts": _named(quantized.experts, "parts of routed experts"),
        "drafter": _named(quantized.drafter, "tensors of the MTP head")
        if quantized.drafting
        else ("no information", "nothing was drafted: the recipe has no speculative_config"),
        "method": _method(quantized, stand_in),
        "backend": _backend(quantized, stand_in),
        "replies": _replies(quantized),
        "repeatable": _repeatable(quantized.repeat, real=real),
        "acceptance": _acceptance(drafts),
        "quality": _quality(quality),
    }
    return Served(
        title=title,
        checkpoint=quantized.checkpoint or "",
        real=real,
        stand_in=stand_in,
        engine=quantized.engine,
        experts=quantized.experts,
        decoder=quantized.decoder,
        drafter=quantized.drafter,
        replies=quantized.replies,
        repeat=quantized.repeat,
        acceptance=drafts,
        checks=tuple(Check(name=name, outcome=found[name][0], detail=found[name][1]) for name in CHECKS),
    )


def _array(side: Side | None) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]] | None:
    return None if side is None or side.drafts is None else np.array(side.drafts, dtype=np.float64)


def _load(side: Side) -> tuple[Outcome, str]:
    if not side.logged:
        return "no information", "the engine's log is not known, and so not how it was started"
    if not side.tracked:
        return "no information", f"started without --model-loader-extra-config '{TRACKED}'"
    outcome, detail = _named(side.decoder, "other tensors of the decoder")
    return outcome, f"started with its weights tracked, which covers norms and no linear layer or expert; {detail}"


def _named(tensors: LoadedTensors | None, what: str) -> tuple[Outcome, str]:
    if tensors is None:
        return "no information", "the engine's log is not known, or names nothing that it loads"
    unseen = f"; {tensors.unseen:,} more are packed and loaded without a line" if tensors.unseen else ""
    if tensors.missing:
        missing = f"{tensors.expected - tensors.loaded:,} of {tensors.expected:,} {what}"
        names = ", ".join(tensors.missing[:3])
        return "failed", f"{missing} were not loaded and keep whatever was in memory: {names}"
    if tensors.expected == 0:
        return "failed", f"the checkpoint has no {what}"
    return "passed", f"all {tensors.expected:,} {what} were named as loaded{unseen}"


def _method(side: Side, stand_in: str | None) -> tuple[Outcome, str]:
    if stand_in is not None:
        return "no information", f"served was {stand_in}"
    if not side.told_method or side.engine is None:
        return "no information", "the engine's log is not known, or does not say"
    found = side.engine.quantization
    return ("passed" if found == METHOD else "failed"), f"the engine resolved {found or 'no quantization'}"


def _backend(side: Side, stand_in: str | None) -> tuple[Outcome, str]:
    if stand_in is not None:
        return "no information", f"served was {stand_in}"
    engine = side.engine
    if not side.logged or engine is None:
        return "no information", "the engine's log is not known"
    if engine.moe_line is None or "NvFp4" not in engine.moe_line:
        return "failed", f"no NVFP4 backend was chosen for the experts: {engine.moe_line or 'the log names none'}"
    return "passed", _backend_words(engine)


def _backend_words(engine: EngineFacts) -> str:
    only = "; only weights are quantized on this card: nothing is learnt of 4-bit activations"
    return f"experts run on {engine.moe_backend}{only if engine.weight_only else ''}"


def _replies(side: Side) -> tuple[Outcome, str]:
    replies = side.replies
    if replies is None:
        return "no information", "nothing was asked"
    words = f"{replies.exact} of {replies.asked} replies had the exact token counts"
    if replies.first_wrong is not None:
        return "failed", f"{words}; {replies.first_wrong}"
    return "passed", f"{words}: {replies.prompt_tokens:,} prompt and {replies.reply_tokens:,} reply tokens"


def _repeatable(repeat: Repeat, *, real: bool) -> tuple[Outcome, str]:
    """Fails where replies part beyond a tie; passes on a reply's worth of tokens that were the same again."""
    limit = tie_limit(trained=real, other_gap=repeat.other_gap)
    for parting in repeat.partings:
        if parting.gap is not None and parting.gap > limit:
            where = f"from token {parting.at + 1} of {repeat.tokens} on"
            moved = f"the two candidates moved by {parting.gap:.2f} nats, a tie by {limit:.2f} at most"
            return "failed", f"reply {parting.reply} to the same prompt differs {where}, and not by rounding: {moved}"
    if repeat.same == repeat.tokens:
        if repeat.differs_from_b:
            return "passed", (
                f"the same prompt got the same {repeat.tokens} tokens {repeat.replies} times, with another one between "
                "them"
            )
        return "no information", "the same prompt got the same reply again, but another prompt got it too"
    first = f"the first at token {repeat.same + 1} of {repeat.tokens}"
    if not repeat.partings or any(parting.gap is None for parting in repeat.partings):
        return "no information", f"greedy replies to the same prompt part, {first}; whether at a tie is not known"
    moved = f", where no log-probability moved by more than {repeat.moved:.2f} nats" if repeat.moved is not None else ""
    words = (
        f"{len(repeat.partings)} of {repeat.replies - 1} later replies to the same prompt part from the first one at a "
        f"tie (within {limit:.2f} nats), {first}: rounding decides from there on; {repeat.compared:,} tokens were the "
        f"same until then{moved}"
    )
    if repeat.compared >= repeat.tokens and repeat.differs_from_b:
        return "passed", words
    flat = "" if real else "; with random weights all logits are nearly equal: only another state would be noticed"
    return "no information", f"{words}{flat}"


def _acceptance(drafts: Acceptance) -> tuple[Outcome, str]:
    if drafts.quantized is None:
        return "no information", "nothing was drafted, or the server does not count it"
    mine = f"{drafts.quantized.tokens_a_step:.2f} tokens a step"
    if drafts.reference is None:
        return "no information", f"{mine}; no reference to compare with"
    first = drafts.reference.rates[0] if drafts.reference.rates else 0.0
    if first < USEFUL_ACCEPTANCE:
        blind = f"the reference itself accepts {first:.1%} of its first drafts, as random weights do"
        return "no information", f"{mine}; {blind}: no loss could be seen against it"
    ratio = drafts.tokens_a_step
    if ratio is None or ratio.low is None or ratio.high is None:
        return "no information", f"{mine}, the reference {drafts.reference.tokens_a_step:.2f}; too few texts to compare"
    words = (
        f"{mine}, the reference {drafts.reference.tokens_a_step:.2f}: {ratio.value:.3f} of it "
        f"({ratio.low:.3f} to {ratio.high:.3f})"
    )
    if ratio.high < LEAST_TOKENS_A_STEP:
        return "failed", f"{words}, below {LEAST_TOKENS_A_STEP}"
    return ("passed" if ratio.low >= LEAST_TOKENS_A_STEP else "no information"), words


def _quality(quality: Quality | None) -> tuple[Outcome, str]:
    if quality is None:
        return "no information", "no reference to compare with"
    everything = quality.all
    recovery, right = everything.recovery, everything.accuracy_reference
    if recovery is None or right is None or everything.perplexity_reference is None:
        return "no information", "the figures do not exist"
    if right < USEFUL_ACCURACY:
        blind = f"finds {right:.1%} of the tokens (perplexity {everything.perplexity_reference:,.0f})"
        return "no information", f"the reference itself {blind}: it knows nothing that could be lost"
    if recovery.low is None or recovery.high is None:
        return "no information", f"recovery {recovery.value:.2f} %; too few texts for an interval"
    words = f"recovery {recovery.value:.2f} % of the perplexity ({recovery.low:.2f} to {recovery.high:.2f})"
    if recovery.high < LEAST_RECOVERY:
        return "failed", f"{words}, below {LEAST_RECOVERY:g} %"
    return ("passed" if recovery.low >= LEAST_RECOVERY else "no information"), words
