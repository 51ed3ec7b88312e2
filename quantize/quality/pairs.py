"""Two models beside each other, token by token.

**The estimator of the divergence.** Of each model only the k most likely tokens of a position are known, and the text's
own token. A token that is known of both keeps its two probabilities; everything else is put into one bucket, the rest.
The Kullback-Leibler divergence KL(reference || quantized) of these two coarser distributions is what `divergence`
holds. By the log-sum inequality (Cover & Thomas 2006, "Elements of Information Theory", theorem 2.7.1; data processing,
section 2.8) it is **never more than the true one**: the bias is downwards. The part that is missing is exactly

    rest_reference x KL(reference within the rest || quantized within the rest),

so it is small where the rest is, whatever happens inside; but no k short of the vocabulary bounds it from above, for
the quantized model may give any token of the rest as little as it likes. `ceiling` therefore adds what would be missing
if some token of the rest were as badly off as the worst known token of the whole comparison, and all of the rest were
like it: a bound under that condition, and no bound without it. With k equal to the vocabulary there is no rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bench.errors import StreamproofError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from quantize.quality.scores import Scores

_ROUNDING: Final = 1e-6
"""Probability that a sum of float32 logarithms cannot tell from none; the rest is never taken for less."""


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """All tokens of all texts. Every array has the shape (n,).

    Attributes:
        text: number of the text that the token belongs to: the block.
        position: of the token in its text, from 1.
        role: index into `quantize.quality.text.ROLES`.
        token: its id.
        reference, quantized: its log-probability, natural.
        divergence: estimate of KL(reference || quantized) at this position, nats; not above the true one.
        rest: the reference's probability of all tokens that are not known of both.
        rest_ratio: logarithm of the rest's probability, reference over quantized.
        worst: the largest log-ratio, reference over quantized, of a token known of both.
        same_first: both models find the same token the most likely one.
        reference_right, quantized_right: the text's own token is the most likely one.
    """

    text: NDArray[np.int64]
    position: NDArray[np.int64]
    role: NDArray[np.int64]
    token: NDArray[np.int64]
    reference: NDArray[np.float64]
    quantized: NDArray[np.float64]
    divergence: NDArray[np.float64]
    rest: NDArray[np.float64]
    rest_ratio: NDArray[np.float64]
    worst: NDArray[np.float64]
    same_first: NDArray[np.bool_]
    reference_right: NDArray[np.bool_]
    quantized_right: NDArray[np.bool_]

    @property
    def ceiling(self) -> NDArray[np.float64]:
        """See the module's docstring; nats."""
        if not len(self.worst):
            return self.divergence
        missing: NDArray[np.float64] = self.rest * np.maximum(0.0, self.worst.max() - self.rest_ratio)
        return self.divergence + missing


def pair(
    reference: Sequence[Scores], quantized: Sequence[Scores], roles: Sequence[Sequence[int]], numbers: Sequence[int]
) -> Pairs:
    """Pairs two models' scores of the same texts.

    Args:
        reference: of each text.
        quantized: of each text, in the same order.
        roles: of each text, the role of each of its tokens, the first one included.
        numbers: of each text, its number.

    Raises:
        StreamproofError: the two were not scored on the same tokens.
    """
    parts = [
        _pair_text(first, second, role, number)
        for first, second, role, number in zip(reference, quantized, roles, numbers, strict=True)
    ]
    return Pairs(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _pair_text(
    reference: Scores, quantized: Scores, roles: Sequence[int], number: int
) -> tuple[NDArray[np.generic], ...]:
    """The columns of `Pairs`, in their order, for one text."""
    if not np.array_equal(reference.tokens, quantized.tokens):
        raise StreamproofError(
            f"text {number} was scored on other tokens by the reference than by the quantized checkpoint",
            remedy="Both must be scored with the same tokenizer, seed and texts; make both again.",
        )
    count = len(reference.tokens)
    own = reference.tokens[:, None]
    p_log, q_log = reference.logprob.astype(np.float64), quantized.logprob.astype(np.float64)
    p_top, q_top = reference.top_logprob.astype(np.float64), quantized.top_logprob.astype(np.float64)
    # A token in both lists, with the other model's logarithm beside it.
    in_both, place = _find(reference.top_ids, quantized.top_ids)
    partner = q_top.ravel()[place]
    ratio = np.where(in_both, p_top - partner, 0.0)
    p_known = np.where(in_both, np.exp(p_top), 0.0).sum(axis=1)
    q_known = np.where(in_both, np.exp(partner), 0.0).sum(axis=1)
    divergence = (np.where(in_both, np.exp(p_top), 0.0) * ratio).sum(axis=1)
    worst = np.where(in_both, ratio, -np.inf).max(axis=1)
    # The text's own token is known of both even where a list does not have it.
    extra = ~((reference.top_ids == own).any(axis=1) & (quantized.top_ids == own).any(axis=1))
    own_ratio = p_log - q_log
    p_known += np.where(extra, np.exp(p_log), 0.0)
    q_known += np.where(extra, np.exp(q_log), 0.0)
    divergence += np.where(extra, np.exp(p_log) * own_ratio, 0.0)
    worst = np.maximum(worst, own_ratio)
    p_rest, q_rest = np.maximum(1 - p_known, _ROUNDING), np.maximum(1 - q_known, _ROUNDING)
    rest_ratio = np.log(p_rest / q_rest)
    divergence += p_rest * rest_ratio
    return (
        np.full(count, number, dtype=np.int64),
        np.arange(1, count + 1, dtype=np.int64),
        np.asarray(roles[1:], dtype=np.int64),
        reference.tokens.astype(np.int64),
        p_log,
        q_log,
        divergence,
        p_rest,
        rest_ratio,
        worst,
        reference.top_ids[:, 0] == quantized.top_ids[:, 0],
        reference.top_ids[:, 0] == own[:, 0],
        quantized.top_ids[:, 0] == own[:, 0],
    )


def _find(wanted: NDArray[np.int32], among: NDArray[np.int32]) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    """Looks up ids in the same row of another table: whether each is there, and where in the flattened table.

    Args:
        wanted: ids, (n, k).
        among: ids, (n, m), none twice in a row.

    Returns:
        Both (n, k); the place means nothing where the id is not there.
    """
    span = 1 + int(max(wanted.max(initial=0), among.max(initial=0)))  # so that ids of two rows never meet
    rows = np.arange(len(wanted), dtype=np.int64)[:, None] * span
    keys = (rows + among).ravel()
    order = np.argsort(keys)
    found = np.minimum(np.searchsorted(keys[order], rows + wanted), len(keys) - 1)
    place = order[found]
    return keys[place] == rows + wanted, place
