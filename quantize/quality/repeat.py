"""The same prompt several times: whether its greedy replies are the same, and where they part, whether it was a tie.

What a tie is, and why replies that part there are not different: `bench.stats.ties`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.stats.ties import TOP_K, lead, shared
from quantize.quality.ask import reply
from quantize.quality.served import Parting, Repeat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.engine.base import RunningEngine
    from quantize.quality.ask import Reply
    from quantize.quality.text import HeldOutText

REPLIES: Final = 4
"""To A. One that parts early says nothing of the rest; the others may part later."""


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
    same = [shared(one.ids, again.ids) for again in later]
    partings = tuple(
        Parting(reply=number, at=at, gap=_gap(one, again, at))
        for number, (again, at) in enumerate(zip(later, same, strict=True), start=2)
        if one.ids != again.ids
    )
    moves = [
        abs(row[token] - other[token])
        for again, at in zip(later, same, strict=True)
        for row, other in zip(one.likely[: at + 1], again.likely[: at + 1], strict=False)
        for token in row.keys() & other.keys()
    ]
    return Repeat(
        tokens=max(len(each.ids) for each in (one, *later)),
        same=min(same),
        differs_from_b=one.ids != between.ids,
        replies=1 + len(later),
        compared=sum(same),
        partings=partings,
        moved=max(moves, default=None),
        other_gap=_gap(one, between, shared(one.ids, between.ids)),
    )


def _gap(one: Reply, again: Reply, at: int) -> float | None:
    """By how much the two candidates moved against each other, at least."""
    if at >= min(len(one.ids), len(again.ids), len(one.likely), len(again.likely)):
        return None
    mine, other = one.ids[at], again.ids[at]
    return lead(one.likely[at], mine, other) + lead(again.likely[at], other, mine)
