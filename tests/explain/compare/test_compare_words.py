"""Figures and axes of a comparison as people read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.explain.compare import words as says
from bench.explain.compare.figure import change_axis
from bench.explain.compare.outcome import Effect


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(1.1, "+10.0 %"), (5 / 6, "-16.7 %"), (1.0, "+0.0 %"), (None, "\N{EN DASH}"), (1500.0, "over +900 %")],
)
def test_a_ratio_is_told_as_a_change(ratio: float | None, text: str) -> None:
    assert says.change(ratio) == text


def test_an_effect_is_told_in_its_unit() -> None:
    effect = Effect(
        name="p95 of E2E",
        metric="e2e",
        quantile=0.95,
        base=0.6,
        other=0.5,
        difference=-0.1,
        difference_low=-0.12,
        difference_high=0.01,
        ratio=0.833,
        low=0.8,
        high=1.02,
    )
    assert says.figure(effect, effect.base) == "600 ms"
    assert says.difference(effect) == "-100 ms (-120 ms to +10.0 ms)"
    assert says.change_interval(effect) == "-20.0 % to +2.0 %"
    without = effect.model_copy(update={"difference": None, "low": None, "none": "too few requests"})
    assert says.difference(without) == ""
    assert says.change_interval(without) == "too few requests"


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=6))
def test_an_axis_of_changes_holds_every_ratio_and_no_change(ratios: list[float]) -> None:
    axis = change_axis(ratios)
    assert axis.low <= min(1, *ratios) + 1e-9
    assert axis.high >= max(1, *ratios) - 1e-9
    assert "0 %" in [label for _, label in axis.ticks]
    assert 2 <= len(axis.ticks) <= 8
