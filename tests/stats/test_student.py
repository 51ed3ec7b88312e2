"""Student's t against published values and against scipy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as reference

from bench.stats.student import MOST_DEGREES, student


@pytest.mark.parametrize(
    ("confidence", "degrees", "published"),
    # Abramowitz & Stegun 1964, table 26.10 ("Percentage points of the t-distribution").
    [(0.95, 1, 12.706), (0.95, 2, 4.303), (0.95, 4, 2.776), (0.95, 30, 2.042), (0.99, 5, 4.032), (0.9, 10, 1.812)],
)
def test_published_values(confidence: float, degrees: int, published: float) -> None:
    assert student(confidence, degrees) == pytest.approx(published, abs=6e-4)


@given(st.floats(0.05, 0.9999), st.integers(1, MOST_DEGREES))
def test_it_is_the_quantile_of_the_distribution(confidence: float, degrees: int) -> None:
    assert student(confidence, degrees) == pytest.approx(float(reference.ppf((1 + confidence) / 2, degrees)), rel=1e-7)


def test_more_degrees_than_matter_are_as_many_as_matter() -> None:
    assert student(0.95, 10**9) == student(0.95, MOST_DEGREES)


@pytest.mark.parametrize(("confidence", "degrees"), [(0.95, 0), (0.0, 3), (1.0, 3)])
def test_what_has_no_answer_is_refused(confidence: float, degrees: int) -> None:
    with pytest.raises(ValueError, match="student needs"):
        student(confidence, degrees)
