"""The same prompt several times: whether its greedy replies are the same, and where they part, whether it was a tie.

Greedy replies of an engine are not bound to be equal: sums that are made in another order round otherwise, and where
two tokens are equally likely within that, rounding decides. From there on the replies are about other words. What can
be asked is whether they part **only at ties**: up to the first difference both replies have the same tokens before
them, so that the log-probabilities of the two candidates can be compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quantize.quality.ask import reply
from quantize.quality.served import Parting, Repeat

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.engine.base import RunningEngine
    from quantize.quality.ask import Reply
    from quantize.quality.text import HeldOutText

REPLIES: Final = 4
"""To A. One that parts early says nothing of the rest; the others may part later."""
TOP_K: Final = 20
"""As many as vLLM gives without `--max-logprobs`. Where logits are nearly flat many tokens are close to the first."""
TIE: Final = 0.25
"""Nats. A logit is made in BF16 and only then widened: eight significant bits, so that its neighbours are 2^(e-7) away
in [2^e, 2^(e+1)), an eighth in [16, 32). Sums made in another order round a logit to its neighbour, and of two
candidates each: their difference moves by two eighths. (What logits have in common cancels: it is the same difference
in log-probabilities.) Logits of 32 and more are further apart, and a tie among them would be called a difference;
among logits below 16, whose neighbours are closer, a difference of up to 0.25 is called a tie.

That is the rounding of the logits themselves. What is rounded before them moves them less, unless it sends a token to
another expert; see `UNTRAINED`."""
UNTRAINED: Final = 0.5
"""With random weights: as much of the gap to another prompt's reply is allowed too. Random routers are as flat as
random logits, so rounding swaps experts, and then every logit moves: by 7 % of their spread in a model of 8 layers and
64 experts (BF16, on a CPU) whose prompt was computed in two pieces instead of one. Another prompt moves them by all of
it."""


def asked_again(engine: RunningEngine, texts: Sequence[HeldOutText], *, tokens: int) -> Repeat:
    """Asks for A, B, and A again; each with a cache of its own, so that every one is computed from its first token.

    Args:
        engine: that is ready and that nobody else uses.
        texts: whose first two are A and B.
        tokens: length of each reply.

    Raises:
        StreamproofError: the engine refuses or dies.
    """
    first, other = (text.ids[: text.prompt_tokens] for text in texts[:2])
    one = reply(engine, first, tokens=tokens, salt="A 1", top_k=TOP_K)
    between = reply(engine, other, tokens=tokens, salt="B", top_k=TOP_K)
    later = [reply(engine, first, tokens=tokens, salt=f"A {number}", top_k=TOP_K) for number in range(2, REPLIES + 1)]
    return compare(one, later, between)


def compare(one: Reply, later: Sequence[Reply], between: Reply) -> Repeat:
    """What the replies come to.

    Args:
        one: the first to A.
        later: the others to A, one at least.
        between: the one to B.
    """
    shared = [_shared(one.ids, again.ids) for again in later]
    partings = tuple(
        Parting(reply=number, at=at, gap=_gap(one, again, at))
        for number, (again, at) in enumerate(zip(later, shared, strict=True), start=2)
        if one.ids != again.ids
    )
    moves = [
        abs(row[token] - other[token])
        for again, at in zip(later, shared, strict=True)
        for row, other in zip(one.likely[: at + 1], again.likely[: at + 1], strict=False)
        for token in row.keys() & other.keys()
    ]
    return Repeat(
        tokens=max(len(each.ids) for each in (one, *later)),
        same=min(shared),
        differs_from_b=one.ids != between.ids,
        replies=1 + len(later),
        compared=sum(shared),
        partings=partings,
        moved=max(moves, default=None),
        other_gap=_gap(one, between, _shared(one.ids, between.ids)),
    )


def _shared(one: Sequence[int], other: Sequence[int]) -> int:
    """Leading tokens that both have."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _gap(one: Reply, again: Reply, at: int) -> float | None:
    """By how much the two candidates moved against each other, at least."""
    if at >= min(len(one.ids), len(again.ids), len(one.likely), len(again.likely)):
        return None
    mine, other = one.ids[at], again.ids[at]
    return _lead(one.likely[at], mine, other) + _lead(again.likely[at], other, mine)


def _lead(row: Mapping[int, float], winner: int, loser: int) -> float:
    """How much more likely the one was, in nats. A token that is not listed is at most as likely as the last listed."""
    least = min(row.values())
    return row.get(winner, least) - row.get(loser, least)
