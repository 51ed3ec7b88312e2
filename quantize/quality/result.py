"""`quality.json`: perplexity, divergence and agreement of the quantized checkpoint beside its reference.

A pure function of the pairs (`quantize.quality.pairs`), which are kept beside it as `pairs.parquet`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from quantize.quality.intervals import block_interval, ratio_of_means
from quantize.quality.served import Finite, Interval, Part
from quantize.quality.text import ROLES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from quantize.quality.intervals import Figure
    from quantize.quality.pairs import Pairs

SCHEMA_VERSION: Final = "1.0"
FILE_NAME: Final = "quality.json"
POSITIONS: Final = (1, 64, 256, 1024, 4096, 16384, 65536)
"""Borders of the position bins: each four times as far as the one before: what matters is the order of the distance."""

_COUNT, _REFERENCE, _QUANTIZED, _DIVERGENCE, _CEILING, _REST, _SAME, _REFERENCE_RIGHT, _QUANTIZED_RIGHT = range(9)
"""Columns of the sums over a block."""


class Slice(Part):
    """Figures over some of the tokens. None where they do not exist: accuracy over a reference that is never right.

    Attributes:
        name: "all", a role, or a range of positions.
        tokens: how many.
        perplexity_reference, perplexity_quantized: exp of the mean negative log-probability of the text's own tokens;
            exact, since that probability is always known.
        perplexity_ratio: quantized over reference.
        recovery: reference perplexity over quantized, in percent: 100 is no loss.
        divergence: mean KL(reference || quantized) in nats a token, from the k most likely tokens and the bucket of the
            rest: never above the true one, see `quantize.quality.pairs`.
        divergence_ceiling: the same, if all of the rest were as badly off as the worst known token.
        rest: mean probability of the rest under the reference: how much of the divergence is not resolved.
        same_first: share of tokens where both models find the same token the most likely.
        accuracy_reference, accuracy_quantized: share of tokens that are the model's first choice.
        accuracy_recovery: quantized over reference, in percent.
    """

    name: str
    tokens: int
    perplexity_reference: Finite | None
    perplexity_quantized: Finite | None
    perplexity_ratio: Interval | None
    recovery: Interval | None
    divergence: Interval | None
    divergence_ceiling: Finite | None
    rest: Finite | None
    same_first: Interval | None
    accuracy_reference: Finite | None
    accuracy_quantized: Finite | None
    accuracy_recovery: Interval | None


class Quality(Part):
    """The whole outcome.

    Attributes:
        schema_version: of this model.
        title: one line; what was not real is in it.
        method: "vllm" (prompt log-probabilities of the serving engine) or "transformers".
        weights_only: the weights were dequantized and run in BF16: activations and KV cache were not quantized, so this
            is not the loss of the checkpoint as it is served.
        reference, quantized: digests of the folders (`quantize.quality.folder.identity`); None for a server that was
            already there.
        workload_version: of the text.
        seed, texts, top_k: that were asked for.
        all: over every token but the first of each text.
        roles, positions: over parts of them.
    """

    schema_version: Literal["1.0"] = SCHEMA_VERSION
    title: str
    method: Literal["vllm", "transformers"]
    weights_only: bool
    reference: str | None
    quantized: str | None
    workload_version: str
    seed: int
    texts: int
    top_k: int
    all: Slice
    roles: tuple[Slice, ...]
    positions: tuple[Slice, ...]


def slices(pairs: Pairs, *, seed: int) -> tuple[Slice, tuple[Slice, ...], tuple[Slice, ...]]:
    """All tokens, by role, and by position; parts without a token are left out.

    Args:
        pairs: of all texts.
        seed: decides the draws of the intervals.
    """
    columns = _columns(pairs)
    everything = _slice("all", columns, pairs.text, np.ones(len(pairs.text), dtype=np.bool_), seed)
    by_role = [(role, pairs.role == number) for number, role in enumerate(ROLES)]
    by_position = [
        (f"{low} to {high - 1}", (pairs.position >= low) & (pairs.position < high)) for low, high in pairwise(POSITIONS)
    ]
    by_position.append((f"{POSITIONS[-1]} and later", pairs.position >= POSITIONS[-1]))
    return (
        everything,
        tuple(_slice(name, columns, pairs.text, where, seed) for name, where in by_role if where.any()),
        tuple(_slice(name, columns, pairs.text, where, seed) for name, where in by_position if where.any()),
    )


def _columns(pairs: Pairs) -> NDArray[np.float64]:
    """What is summed over a block, shape (n, 9); see the constants above."""
    return np.column_stack(
        [
            np.ones(len(pairs.text)),
            pairs.reference,
            pairs.quantized,
            pairs.divergence,
            pairs.ceiling,
            pairs.rest,
            pairs.same_first,
            pairs.reference_right,
            pairs.quantized_right,
        ]
    ).astype(np.float64)


def _slice(
    name: str, columns: NDArray[np.float64], text: NDArray[np.int64], where: NDArray[np.bool_], seed: int
) -> Slice:
    names, members = np.unique(text[where], return_inverse=True)
    sums = np.zeros((len(names), columns.shape[1]))
    np.add.at(sums, members, columns[where])
    totals = sums.sum(axis=0)

    def mean(column: int) -> float:
        return float(totals[column] / totals[_COUNT])

    def interval(figure: Figure) -> Interval | None:
        return block_interval(sums, figure, seed=seed)

    def log_ratio(drawn: NDArray[np.float64]) -> NDArray[np.float64]:
        return (drawn[..., _REFERENCE] - drawn[..., _QUANTIZED]) / drawn[..., _COUNT]

    return Slice(
        name=name,
        tokens=int(totals[_COUNT]),
        perplexity_reference=_finite(np.exp(-mean(_REFERENCE))),
        perplexity_quantized=_finite(np.exp(-mean(_QUANTIZED))),
        perplexity_ratio=interval(lambda drawn: np.exp(log_ratio(drawn))),
        recovery=interval(lambda drawn: 100 * np.exp(-log_ratio(drawn))),
        divergence=interval(ratio_of_means(_DIVERGENCE, _COUNT)),
        divergence_ceiling=_finite(mean(_CEILING)),
        rest=_finite(mean(_REST)),
        same_first=interval(ratio_of_means(_SAME, _COUNT)),
        accuracy_reference=_finite(mean(_REFERENCE_RIGHT)),
        accuracy_quantized=_finite(mean(_QUANTIZED_RIGHT)),
        accuracy_recovery=interval(lambda drawn: 100 * drawn[..., _QUANTIZED_RIGHT] / drawn[..., _REFERENCE_RIGHT]),
    )


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
