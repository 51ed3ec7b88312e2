"""How much runs differ, and when there are samples enough."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.stats.quantiles import Quantile, Sample, quantile
from bench.stats.runs import between_runs, narrow_enough


def run_of(value: float, n: int = 100, failures: int = 0) -> Sample:
    return Sample(np.full(n - failures, value), failures)


def test_variance_and_coefficient_between_runs() -> None:
    found = between_runs([run_of(1.0), run_of(2.0), run_of(3.0)], 0.95)
    assert found is not None
    assert found.per_run == (1.0, 2.0, 3.0)
    assert found.variance == 1.0  # over n - 1
    assert found.coefficient == 0.5


@pytest.mark.parametrize(
    "samples",
    [
        [],
        [run_of(1.0)],
        [run_of(1.0), run_of(1.0, n=71)],
        [run_of(1.0), run_of(2.0), run_of(1.0, failures=6)],
        [run_of(0.0), run_of(0.0)],
    ],
    ids=["none", "one", "one too small", "one among its failures", "all are 0"],
)
def test_there_is_no_variance_without_a_figure_in_every_run(samples: list[Sample]) -> None:
    assert between_runs(samples, 0.95) is None


def test_a_run_may_stop_when_its_interval_is_narrow() -> None:
    assert narrow_enough(Quantile(1.0, 0.96, 1.05, 0.95, 500))
    assert not narrow_enough(Quantile(1.0, 0.94, 1.05, 0.95, 500))
    assert narrow_enough(Quantile(1.0, 0.94, 1.05, 0.95, 500), share=0.2)


def test_a_run_does_not_stop_without_figures() -> None:
    assert not narrow_enough(None)
    assert not narrow_enough(Quantile(1.0, 1.0, math.inf, 0.95, 80))


@given(scale=st.floats(0.01, 100))
def test_whether_to_stop_does_not_depend_on_where_the_interval_lies(scale: float) -> None:
    values = np.random.default_rng(3).lognormal(0, 0.2, 2000)
    for n in (100, 2000):
        assert narrow_enough(quantile(Sample.of(values[:n]), 0.95)) == narrow_enough(
            quantile(Sample.of(values[:n] * scale), 0.95)
        )
    assert not narrow_enough(quantile(Sample.of(values[:100]), 0.95))
    assert narrow_enough(quantile(Sample.of(values), 0.95))
