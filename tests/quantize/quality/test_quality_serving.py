from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from quantize.quality.served import Repeat
from quantize.quality.serving import Serving, acceptance, serve
from quantize.quality.text import HeldOutText
from tests.quantize.quality.standin import Standin, greedy, serving
from tests.quantize.quality.test_quality_ask import engine

TEXTS = [HeldOutText(number, "router", (1, 2, 3, 4 + number, 5), (0,) * 5, 4) for number in range(3)]


def served(standin: Standin) -> Serving:
    told: list[int] = []
    with serving(standin) as url:
        found = serve(engine(url), TEXTS, reply_tokens=6, on_text=told.append)
    assert told == [1, 2, 3]
    return found


def test_every_prompt_is_asked_once_and_then_a_b_a() -> None:
    standin = Standin()
    found = served(standin)
    prompts = [tuple(request["prompt"]) for request in standin.requests]
    a, b, c = (text.ids[:4] for text in TEXTS)
    assert prompts == [a, b, c, a, b, a, a, a]
    assert len({request["cache_salt"] for request in standin.requests}) == 8
    assert [request.get("logprobs") for request in standin.requests] == [None] * 3 + [20] * 5
    assert (found.replies.asked, found.replies.exact, found.replies.first_wrong) == (3, 3, None)
    assert (found.replies.prompt_tokens, found.replies.reply_tokens) == (12, 18)
    assert found.repeat == Repeat(
        tokens=6, same=6, differs_from_b=True, replies=4, compared=18, partings=(), moved=0.0, other_gap=0.0
    )


def test_drafts_are_counted_text_by_text() -> None:
    found = served(Standin())
    assert found.drafts is not None
    assert found.drafts.tolist() == [[10, 8, 4]] * 3
    assert served(Standin(accepted=None)).drafts is None


def test_a_short_reply_is_not_exact() -> None:
    def short(prompt: Sequence[int], tokens: int) -> list[int]:
        return greedy(prompt, tokens - (prompt[3] == 5))

    replies = served(Standin(reply=short)).replies
    assert replies.exact == 2
    assert replies.first_wrong is not None
    assert replies.first_wrong.startswith("text 1: 4 prompt tokens instead of 4, 5 reply tokens (5 ids) instead of 6")


def test_acceptance_by_hand() -> None:
    mine = np.array([[10.0, 6, 3]] * 12)
    theirs = np.array([[10.0, 8, 4]] * 12)
    found = acceptance(mine, theirs, seed=1)
    assert found.quantized is not None
    assert found.reference is not None
    assert (found.quantized.drafts, found.quantized.accepted) == (120, (72, 36))
    assert found.quantized.tokens_a_step == pytest.approx(1.9)
    assert [rate.value for rate in found.rates] == pytest.approx([-0.2, -0.1])
    assert found.tokens_a_step is not None
    assert (found.tokens_a_step.low, found.tokens_a_step.high) == pytest.approx((1.9 / 2.2,) * 2)


def test_no_comparison_without_a_reference_or_without_drafts() -> None:
    drafts = np.array([[10.0, 6, 3]] * 12)
    assert acceptance(drafts, None, seed=1).tokens_a_step is None
    assert acceptance(None, drafts, seed=1).quantized is None
