"""What gate 8 asks of an engine that serves: exact replies, the same one again, and what came of its drafts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bench.engine.metrics import MetricsPage
from quantize.quality.ask import reply
from quantize.quality.intervals import block_interval
from quantize.quality.repeat import asked_again
from quantize.quality.served import Acceptance, Drafts, Replies

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from bench.engine.base import RunningEngine
    from bench.observe.observations import CounterValues
    from quantize.quality.served import Repeat
    from quantize.quality.text import HeldOutText

USEFUL_ACCEPTANCE: Final = 0.05
"""A head that was never trained accepts about one draft in as many as the vocabulary has tokens, and a trained one most
of its first drafts. Below this, the reference's own acceptance is too small for a loss to be seen against it."""


@dataclass(frozen=True, slots=True, eq=False)
class Serving:
    """What the requests of one engine showed.

    Attributes:
        replies: the exact counts.
        repeat: the same prompt several times.
        drafts: of each text: how often tokens were drafted, then by position how many were accepted; shape
            (texts, 1 + k), None where the engine drafts nothing or does not count.
    """

    replies: Replies
    repeat: Repeat
    drafts: NDArray[np.float64] | None


def serve(
    engine: RunningEngine, texts: Sequence[HeldOutText], *, reply_tokens: int, on_text: Callable[[int], None]
) -> Serving:
    """Sends the prompt of every text, one after the other, then some of them again (`repeat`).

    Args:
        engine: that is ready and that nobody else uses.
        texts: two at least.
        reply_tokens: length of each reply.
        on_text: hears how many are done.

    Raises:
        StreamproofError: the engine refuses or dies, or somebody else uses it.
    """
    page = MetricsPage(*engine.servers)
    exact = prompt_total = reply_total = 0
    first_wrong: str | None = None
    drafts = []
    before = page.settled_counters()
    for done, text in enumerate(texts, start=1):
        prompt = text.ids[: text.prompt_tokens]
        answer = reply(engine, prompt, tokens=reply_tokens, salt=f"text {text.number}")
        prompt_total += answer.prompt_tokens
        reply_total += answer.reply_tokens
        wanted = (len(prompt), reply_tokens, reply_tokens, "length")
        got = (answer.prompt_tokens, answer.reply_tokens, len(answer.ids), answer.finish_reason)
        exact += got == wanted
        if got != wanted and first_wrong is None:
            first_wrong = (
                f"text {text.number}: {got[0]} prompt tokens instead of {wanted[0]}, {got[1]} reply tokens ({got[2]} "
                f"ids) instead of {wanted[1]}, ended by {got[3]}"
            )
        after = page.settled_counters()
        drafts.append(_drafts(before, after))
        before = after
        on_text(done)
    return Serving(
        replies=Replies(
            asked=len(texts),
            exact=exact,
            prompt_tokens=prompt_total,
            reply_tokens=reply_total,
            first_wrong=first_wrong,
        ),
        repeat=asked_again(engine, texts, tokens=reply_tokens),
        drafts=np.array(drafts, dtype=np.float64) if all(row is not None for row in drafts) else None,
    )


def _drafts(before: CounterValues, after: CounterValues) -> list[float] | None:
    old, new = before.spec_accepted_per_position, after.spec_accepted_per_position
    if before.spec_drafts is None or after.spec_drafts is None or new is None:
        return None
    old = old or (0.0,) * len(new)
    return [after.spec_drafts - before.spec_drafts, *(b - a for a, b in zip(old, new, strict=True))]


def acceptance(
    quantized: NDArray[np.float64] | None, reference: NDArray[np.float64] | None, *, seed: int
) -> Acceptance:
    """Compares what came of the drafts of two engines in the same conversations.

    The replies are each engine's own: once they differ, the later drafts of a text are about other words. That is what
    serving the one instead of the other means.

    Args:
        quantized: see `Serving.drafts`.
        reference: of the same texts, in the same order; None where it was not run.
        seed: decides the draws of the intervals.
    """
    mine, theirs = _total(quantized), _total(reference)
    if mine is None or theirs is None or quantized is None or reference is None:
        return Acceptance(quantized=mine, reference=theirs, rates=(), tokens_a_step=None)
    positions = min(quantized.shape[1], reference.shape[1]) - 1
    width = quantized.shape[1]
    sums = np.hstack([quantized, reference])

    def rate_change(position: int) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
        def figure(drawn: NDArray[np.float64]) -> NDArray[np.float64]:
            mine_rate: NDArray[np.float64] = drawn[..., position] / drawn[..., 0]
            return mine_rate - drawn[..., width + position] / drawn[..., width]

        return figure

    def step_ratio(drawn: NDArray[np.float64]) -> NDArray[np.float64]:
        mine_step: NDArray[np.float64] = 1 + drawn[..., 1:width].sum(axis=-1) / drawn[..., 0]
        their_step: NDArray[np.float64] = 1 + drawn[..., width + 1 :].sum(axis=-1) / drawn[..., width]
        return mine_step / their_step

    changes = [block_interval(sums, rate_change(position), seed=seed) for position in range(1, positions + 1)]
    return Acceptance(
        quantized=mine,
        reference=theirs,
        rates=tuple(change for change in changes if change is not None),
        tokens_a_step=block_interval(sums, step_ratio, seed=seed),
    )


def _total(drafts: NDArray[np.float64] | None) -> Drafts | None:
    if drafts is None:
        return None
    total = drafts.sum(axis=0)
    return Drafts(drafts=int(total[0]), accepted=tuple(int(count) for count in total[1:]))
