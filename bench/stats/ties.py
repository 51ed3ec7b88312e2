"""Greedy replies that part: whether rounding decided between two tokens, or something else did.

Greedy replies of an engine are not bound to be equal: sums that are made in another order round otherwise, and where
two tokens are equally likely within that, rounding decides. From there on the replies are about other words. What can
be asked is whether they part **only at ties**: up to the first difference both replies have the same tokens before
them, so that the log-probabilities of the two candidates can be compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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


def tie_limit(*, trained: bool, other_gap: float | None) -> float:
    """By how many nats the two candidates may move against each other in a tie.

    Args:
        trained: False for random weights.
        other_gap: by how much they move between replies to two different prompts; None where that is not known.
    """
    return TIE if trained else max(TIE, UNTRAINED * (other_gap or 0.0))


def shared(one: Sequence[int], other: Sequence[int]) -> int:
    """Leading tokens that both have."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def lead(row: Mapping[int, float], winner: int, loser: int) -> float:
    """How much more likely the one was, in nats. A token that is not listed is at most as likely as the last listed."""
    least = min(row.values())
    return row.get(winner, least) - row.get(loser, least)
