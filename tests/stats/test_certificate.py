"""What n requests can prove about a limit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binom

from bench.stats.certificate import allowed_over, refuting_over, smallest_certifiable


@pytest.mark.parametrize(("n", "allowed"), [(130, 1), (300, 6), (600, 17), (1000, 34)])
def test_the_numbers_that_the_project_promises(n: int, allowed: int) -> None:
    assert allowed_over(n, 0.95) == allowed


def test_one_hundred_and_thirty_is_the_fewest_that_allow_one() -> None:
    assert allowed_over(129, 0.95) == 0


@pytest.mark.parametrize(("order", "n"), [(1, 59), (2, 93), (3, 124), (4, 153), (5, 181), (6, 208)])
def test_sample_sizes_of_wilks_for_95_95(order: int, n: int) -> None:
    # The one-sided 95/95 tolerance limits by order, used for decades in nuclear safety analyses.
    assert allowed_over(n, 0.95, 0.95) == order - 1
    before = allowed_over(n - 1, 0.95, 0.95)
    assert before == (None if order == 1 else order - 2)


@pytest.mark.parametrize(
    ("q", "confidence", "n"), [(0.95, 0.95, 59), (0.95, 0.99, 90), (0.99, 0.95, 299), (0.9, 0.99, 44)]
)
def test_the_fewest_that_certify_anything(q: float, confidence: float, n: int) -> None:
    assert smallest_certifiable(q, confidence) == n
    assert allowed_over(n - 1, q, confidence) is None
    assert allowed_over(n, q, confidence) == 0


@given(n=st.integers(90, 5000), q=st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_it_is_the_clopper_pearson_bound(n: int, q: float) -> None:
    allowed = allowed_over(n, q)
    if allowed is not None:
        # The upper one-sided bound on the share over the limit is at most 1 - q; with one more it is above.
        assert beta.ppf(0.99, allowed + 1, n - allowed) <= (1 - q) * (1 + 1e-9)
        assert beta.ppf(0.99, allowed + 2, n - allowed - 1) > (1 - q) * (1 - 1e-9)


@given(n=st.integers(1, 5000), q=st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_nothing_is_both_certified_and_refuted(n: int, q: float) -> None:
    allowed, refuting = allowed_over(n, q), refuting_over(n, q)
    if refuting is not None:
        assert (allowed if allowed is not None else -1) < refuting - 1
        assert binom.sf(refuting - 1, n, 1 - q) <= 0.01 + 1e-12
        assert binom.sf(refuting - 2, n, 1 - q) > 0.01 - 1e-12


def test_a_single_slow_request_refutes_a_p99_but_no_p95() -> None:
    assert refuting_over(1, 0.99) == 1
    assert refuting_over(1, 0.95) is None
    assert refuting_over(2, 0.95) == 2


@pytest.mark.parametrize("n", [130, 300, 1000])
def test_certificates_are_wrong_as_seldom_as_they_say(n: int) -> None:
    # The truth lies at the border: 5 % are over the limit. One more allowed would double the error, or nearly so.
    repeats = 200_000
    over = np.random.default_rng(7).binomial(n, 0.05, size=repeats)
    allowed = allowed_over(n, 0.95)
    assert allowed is not None
    wrong = float(np.mean(over <= allowed))
    exact = float(binom.cdf(allowed, n, 0.05))
    assert exact <= 0.01
    assert wrong == pytest.approx(exact, abs=4 * math.sqrt(exact / repeats))
    assert float(np.mean(over <= allowed + 1)) > 0.01
