from __future__ import annotations

import math

import numpy as np
import pytest

from quantize.quality.pairs import Pairs
from quantize.quality.result import slices


def pairs_of(texts: int, length: int) -> Pairs:
    """Every token: reference ln 1/2, quantized ln 1/4; the first half of a text is the system's."""
    count = texts * length
    zeros = np.zeros(count)
    position = np.tile(np.arange(1, length + 1), texts)
    return Pairs(
        text=np.repeat(np.arange(texts), length),
        position=position,
        role=(position > length // 2).astype(np.int64),
        token=np.zeros(count, dtype=np.int64),
        reference=np.full(count, math.log(0.5)),
        quantized=np.full(count, math.log(0.25)),
        divergence=np.full(count, 0.125),
        rest=np.full(count, 0.01),
        rest_ratio=zeros,
        worst=np.full(count, math.log(2)),
        same_first=position % 2 == 0,
        reference_right=np.ones(count, dtype=np.bool_),
        quantized_right=position % 2 == 0,
    )


def test_figures_by_hand() -> None:
    everything, roles, positions = slices(pairs_of(12, 80), seed=1)
    assert everything.tokens == 960
    assert everything.perplexity_reference == pytest.approx(2)
    assert everything.perplexity_quantized == pytest.approx(4)
    for found, expected in (
        (everything.perplexity_ratio, 2),
        (everything.recovery, 50),
        (everything.divergence, 0.125),
        (everything.same_first, 0.5),
        (everything.accuracy_recovery, 50),
    ):
        assert found is not None
        assert (found.value, found.low, found.high) == pytest.approx((expected,) * 3)
    assert everything.divergence_ceiling == pytest.approx(0.125 + 0.01 * math.log(2))
    assert everything.rest == pytest.approx(0.01)
    assert [part.name for part in roles] == ["system", "user"]
    assert [(part.name, part.tokens) for part in positions] == [("1 to 63", 12 * 63), ("64 to 255", 12 * 17)]


def test_no_recovery_of_an_accuracy_that_is_not_there() -> None:
    pairs = pairs_of(12, 10)
    never = np.zeros(len(pairs.text), dtype=np.bool_)
    columns = {name: getattr(pairs, name) for name in Pairs.__slots__}
    everything, _, _ = slices(Pairs(**{**columns, "reference_right": never}), seed=1)
    assert everything.accuracy_recovery is None
    assert everything.recovery is not None
