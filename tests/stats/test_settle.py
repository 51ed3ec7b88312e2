"""Looks that add up: what each may spend, and that a verdict is the certificate of the report."""

from math import fsum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.stats.certificate import allowed_over, refuting_over
from bench.stats.clustered import Counts
from bench.stats.settle import error_of_look, settle, worth


def counts(n: int, bad: int) -> Counts:
    return Counts.of([True] * bad + [False] * (n - bad))


@given(error=st.floats(0.001, 0.2), looks=st.integers(1, 20), candidates=st.integers(1, 200))
def test_all_looks_together_spend_at_most_the_whole_error(error: float, looks: int, candidates: int) -> None:
    spent = fsum(error_of_look(error, rank, looks) * looks for rank in range(1, candidates + 1))
    assert spent <= error * (1 + 1e-12)


def test_most_of_the_error_goes_to_the_first_two_candidates() -> None:
    assert [error_of_look(0.05, rank, 1) for rank in (1, 2, 3, 4)] == pytest.approx([0.0125, 0.0125, 1 / 240, 1 / 240])


def test_a_verdict_is_that_of_a_binomial_certificate() -> None:
    allowed, refuting = allowed_over(600, 0.95, 0.99), refuting_over(600, 0.95, 0.99)
    assert (allowed, refuting) == (17, 44)
    assert settle(counts(600, 17), 0.95, 0.01) == "holds"
    assert settle(counts(600, 18), 0.95, 0.01) is None
    assert settle(counts(600, 43), 0.95, 0.01) is None
    assert settle(counts(600, 44), 0.95, 0.01) == "does not hold"


def test_correlated_requests_are_worth_fewer() -> None:
    assert worth(counts(600, 12), 2.0) == (300, 6.0)
    assert settle(counts(600, 6), 0.95, 0.01) == "holds"
    assert settle(counts(600, 6), 0.95, 0.01, effect=10) is None


def test_half_a_bad_request_counts_for_neither_verdict() -> None:
    allowed, refuting = allowed_over(300, 0.95, 0.99), refuting_over(300, 0.95, 0.99)
    assert allowed == 6
    assert refuting is not None
    assert worth(counts(600, 13), 2.0) == (300, 6.5)
    assert settle(counts(600, 13), 0.95, 0.01, effect=2.0) is None
    assert settle(counts(600, 2 * refuting - 1), 0.95, 0.01, effect=2.0) is None
    assert settle(counts(600, 2 * refuting), 0.95, 0.01, effect=2.0) == "does not hold"


@pytest.mark.parametrize(("n", "bad"), [(0, 0), (20, 0), (1, 1)])
def test_too_few_prove_nothing(n: int, bad: int) -> None:
    assert settle(counts(n, bad), 0.95, 0.001) is None
