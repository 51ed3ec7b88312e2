from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from bench.errors import StreamproofError
from quantize.quality.pairs import Pairs, pair
from quantize.quality.scores import Scores


def scores_of(logits: NDArray[np.float64], own: NDArray[np.int64], k: int) -> Scores:
    """What a model with these logits, (positions, vocabulary), would say."""
    logprob = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    order = np.argsort(-logprob, axis=1, kind="stable")[:, :k]
    return Scores(
        own.astype(np.int32),
        np.take_along_axis(logprob, own[:, None], axis=1)[:, 0].astype(np.float32),
        order.astype(np.int32),
        np.take_along_axis(logprob, order, axis=1).astype(np.float32),
    )


def paired(first: NDArray[np.float64], second: NDArray[np.float64], own: NDArray[np.int64], k: int) -> Pairs:
    roles = [0] * (len(own) + 1)
    return pair([scores_of(first, own, k)], [scores_of(second, own, k)], [roles], [0])


def true_divergence(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    p = first - np.log(np.exp(first).sum(axis=1, keepdims=True))
    q = second - np.log(np.exp(second).sum(axis=1, keepdims=True))
    divergence: NDArray[np.float64] = (np.exp(p) * (p - q)).sum(axis=1)
    return divergence


@st.composite
def models(draw: st.DrawFn) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    positions, vocabulary = draw(st.integers(1, 6)), draw(st.integers(2, 40))
    spread, change = draw(st.floats(0, 6)), draw(st.floats(0, 4))
    first = rng.normal(scale=spread, size=(positions, vocabulary))
    second = first + rng.normal(scale=change, size=first.shape)
    return first, second, rng.integers(vocabulary, size=positions)


TOLERANCE = 2e-5
"""Logarithms are kept in float32, and the rest is never taken for less than 1e-6."""


@given(models(), st.integers(1, 40))
def test_never_more_than_the_true_divergence(
    model: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]], k: int
) -> None:
    first, second, own = model
    pairs = paired(first, second, own, min(k, first.shape[1]))
    truth = true_divergence(first, second)
    assert (pairs.divergence <= truth + TOLERANCE * (1 + np.abs(truth))).all()
    assert (pairs.divergence >= -TOLERANCE).all()


@given(models())
def test_exact_where_every_token_is_known(
    model: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]],
) -> None:
    first, second, own = model
    pairs = paired(first, second, own, first.shape[1])
    assert pairs.divergence == pytest.approx(true_divergence(first, second), rel=1e-4, abs=TOLERANCE)


@given(models(), st.integers(1, 40))
def test_the_ceiling_holds_where_no_hidden_token_is_worse_than_the_worst_known(
    model: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]], k: int
) -> None:
    first, second, own = model
    pairs = paired(first, second, own, min(k, first.shape[1]))
    everything = paired(first, second, own, first.shape[1])
    if everything.worst.max() <= pairs.worst.max() + 1e-6:
        truth = true_divergence(first, second)
        assert (pairs.ceiling >= truth - TOLERANCE * (1 + np.abs(truth))).all()


def test_a_published_value() -> None:
    # Cover & Thomas 2006, example 2.3.1: D(p||q) = (1 - r) log((1 - r)/(1 - s)) + r log(r/s) with r = 1/2, s = 1/4.
    first, second = np.log([[0.5, 0.5]]), np.log([[0.75, 0.25]])
    expected = (1 - 0.5 * math.log2(3)) * math.log(2)  # they give it in bits: 0.2075
    assert paired(first, second, np.array([0]), 1).divergence[0] == pytest.approx(expected, abs=1e-6)


def test_the_same_model_twice_loses_nothing() -> None:
    logits = np.random.default_rng(1).normal(size=(5, 30), scale=2)
    pairs = paired(logits, logits, np.arange(5), 4)
    assert pairs.divergence == pytest.approx(0, abs=1e-9)
    assert pairs.same_first.all()
    assert (pairs.reference == pairs.quantized).all()


def test_a_token_outside_both_lists_is_known_by_the_text() -> None:
    first, second = np.log([[0.6, 0.3, 0.1]]), np.log([[0.6, 0.1, 0.3]])
    pairs = paired(first, second, np.array([2]), 1)
    # Known: token 0 in both lists, token 2 by the text; the rest is token 1 alone, so nothing is lost.
    assert pairs.divergence[0] == pytest.approx(true_divergence(first, second)[0], abs=1e-6)
    assert pairs.rest[0] == pytest.approx(0.3)
    assert not pairs.reference_right[0]


def test_other_tokens_cannot_be_paired() -> None:
    logits = np.zeros((2, 3))
    first, second = scores_of(logits, np.array([0, 1]), 2), scores_of(logits, np.array([0, 2]), 2)
    with pytest.raises(StreamproofError, match="text 7 was scored on other tokens"):
        pair([first], [second], [[0, 0, 0]], [7])
