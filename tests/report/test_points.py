"""The figures of a point are those of its window, by definitions that can be checked by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from bench.records import Outcome
from bench.report.build import build_report
from bench.report.model import Certificate
from tests.report.factories import (
    DRAIN,
    OUTPUT,
    STEADY,
    healthy,
    healthy_observations,
    healthy_records,
    make_claim,
    make_evidence,
    make_failure,
    make_recipe,
    make_record,
    make_started,
    phases,
)

if TYPE_CHECKING:
    from bench.records import RequestRecord
    from bench.report.model import PointReport
    from recipes.schema import Recipe


def point_of(records: list[RequestRecord], recipe: Recipe | None = None) -> PointReport:
    return build_report(make_evidence(records, [make_started(), *healthy_observations(records)], recipe=recipe)).points[
        0
    ]


def spread(n: int, **changes: Any) -> list[RequestRecord]:
    """Requests that take 0.01 s, 0.02 s, ... n / 100 s."""
    return [
        make_record(request=i, intended_s=STEADY + i * 99 / n, took_s=(i + 1) / 100, segments=((i, 100),), **changes)
        for i in range(n)
    ]


def test_percentiles_are_observed_latencies_with_their_intervals() -> None:
    point = point_of(spread(100))
    assert point.e2e.p95.value == pytest.approx(0.95)
    assert point.e2e.p50.value == pytest.approx(0.50)
    # Ranks 90 and 100 of 100 enclose p95 at 95 %: Binomial(100, 0.95).
    assert point.e2e.p95.low == pytest.approx(0.90)
    assert point.e2e.p95.high == pytest.approx(1.00)
    assert point.e2e.p99.value is None
    assert point.e2e.p99.n == 100
    assert point.e2e.mean == pytest.approx(0.505)
    assert point.e2e.maximum == pytest.approx(1.0)
    assert point.ttft.p95.value == pytest.approx(0.95 * 0.4)
    assert point.tpot.p95.value == pytest.approx(0.95 * 0.5 / (OUTPUT - 1))


def test_only_the_window_counts() -> None:
    outside = [
        make_record(intended_s=0.5, primed=True, took_s=90.0),
        make_record(intended_s=STEADY - 1, took_s=90.0),
        make_record(intended_s=DRAIN, took_s=90.0),
        make_record(intended_s=DRAIN + 1, took_s=90.0),
    ]
    point = point_of(spread(100) + outside)
    assert (point.requests, point.ramp_requests, point.drain_requests) == (100, 1, 2)
    assert point.e2e.maximum == pytest.approx(1.0)
    assert point.e2e.p95.n == 100


def test_the_ramp_is_reported_apart() -> None:
    ramp = [make_record(intended_s=STEADY - 5, took_s=3.0) for _ in range(72)]
    assert point_of(spread(100) + ramp).ramp_p95_e2e == pytest.approx(3.0)
    assert point_of(spread(100) + ramp[1:]).ramp_p95_e2e is None


def test_failures_count_as_infinitely_late() -> None:
    failures = [make_failure(Outcome.TIMEOUT)] * 3 + [make_failure(Outcome.CUT)] * 3
    point = point_of(spread(94) + failures)
    assert point.failures == {"timeout": 3, "cut": 3}
    assert point.requests == point.e2e.p95.n == point.ttft.p95.n == point.tpot.p95.n == 100
    assert point.e2e.p95.among_failures
    assert (point.e2e.p95.value, point.e2e.p95.high) == (None, None)
    assert point.e2e.p95.low == pytest.approx(0.90)
    assert point.e2e.p90.value == pytest.approx(0.90)
    assert point.e2e.p90.high is None
    assert not point.e2e.p90.among_failures
    assert point.e2e.mean == pytest.approx(np.mean([(i + 1) / 100 for i in range(94)]))


def test_a_reply_that_is_short_is_a_failure() -> None:
    short = make_record(outcome=Outcome.SHORT, completion_tokens=3, took_s=0.01)
    point = point_of([*spread(99), short])
    assert point.failures == {"short": 1}
    assert point.e2e.p50.value == pytest.approx(0.50)  # and not 0.49, as if it were a fast reply


def test_what_the_caller_interrupted_is_no_sample_and_no_failure() -> None:
    point = point_of(spread(100) + [make_failure(Outcome.BARGE_IN)] * 4)
    assert (point.requests, point.e2e.p95.n, point.failures) == (104, 100, {})


def test_rates_are_over_the_length_of_the_window() -> None:
    failed = make_failure(Outcome.CUT, done_s=STEADY + 1)
    point = point_of([*spread(50), failed])
    assert point.requests_per_s == pytest.approx(50 / 100)
    assert point.output_tokens_per_s == pytest.approx(50 * OUTPUT / 100)
    sent_to_done = sum((i + 1) / 100 - 0.001 for i in range(50)) + 1 - 0.001
    assert point.mean_in_flight == pytest.approx(sent_to_done / 100)


def test_percentiles_are_pooled_over_runs_and_never_averaged() -> None:
    recipe = make_recipe(load={"runs": 2, "ladder": [{"streams": 20}]})
    fast, slow = [0.1] * 900, [1.0] * 100
    records, observations = [], []
    for run, latencies in enumerate((fast, slow)):
        new = healthy_records(latencies, run=run)
        records += new
        observations += [make_started(run=run), *healthy_observations(new, run=run)]
    point = build_report(make_evidence(records, observations, recipe=recipe)).points[0]
    assert point.e2e.p90.value == pytest.approx(0.1)
    assert [(each.run, each.requests) for each in point.runs] == [(0, 900), (1, 100)]
    assert [each.p95_e2e for each in point.runs] == pytest.approx([0.1, 1.0])
    assert point.requests_per_s == pytest.approx(1000 / 200)
    assert point.between_runs is not None
    assert point.between_runs.variance == pytest.approx(0.9**2 / 2)
    assert point.between_runs.coefficient == pytest.approx(0.9 / 2**0.5 / 0.55)


def test_one_run_says_nothing_of_how_much_runs_differ() -> None:
    assert point_of(spread(400)).between_runs is None


def test_a_point_that_was_interrupted_is_not_complete() -> None:
    records = spread(100)
    point = build_report(make_evidence(records, [make_started(), *phases(0, 0)[:3]])).points[0]
    assert not point.complete
    assert point.requests == 100
    assert point.runs[0].end_s == max(record.done_s for record in records)


def test_a_point_that_never_got_steady_has_no_figures() -> None:
    point = build_report(make_evidence([make_record(intended_s=2.0)], phases(0, 0)[:2])).points[0]
    assert (point.requests, point.ramp_requests) == (0, 1)
    assert point.runs == ()
    assert point.e2e.p50.n == 0
    for figure in (point.e2e.mean, point.e2e.maximum, point.requests_per_s, point.output_tokens_per_s):
        assert figure is None
    assert point.mean_in_flight is None
    assert point.steady is None


def test_points_that_were_never_begun_are_left_out() -> None:
    assert [point.index for point in build_report(healthy(points=1)).points] == [0]


def test_every_limit_that_a_claim_puts_on_a_point_has_a_certificate() -> None:
    claims = [
        make_claim(id="a", value_s=0.905, tolerance=0.0),
        make_claim(id="b", value_s=0.905, tolerance=0.0),
        make_claim(id="c", value_s=0.3, tolerance=0.0, metric="ttft", quantile=0.9),
        make_claim(id="d", value_s=0.5, against="other"),
        make_claim(id="e", point={"streams": 40}),
    ]
    point = point_of(spread(100), make_recipe(claims=claims))
    assert point.certificates == (
        Certificate(
            metric="e2e", limit_s=0.905, quantile=0.95, confidence=0.99, n=100, over=10, allowed=0, certified=False
        ),
        Certificate(
            metric="ttft", limit_s=0.3, quantile=0.9, confidence=0.99, n=100, over=25, allowed=3, certified=False
        ),
    )


def test_a_certificate_counts_failures_as_over_the_limit() -> None:
    records = healthy_records([0.5] * 300) + [make_failure(Outcome.CONNECT)] * 7
    recipe = make_recipe(claims=[make_claim()])
    (certificate,) = point_of(records, recipe).certificates
    assert (certificate.n, certificate.over, certificate.allowed, certificate.certified) == (307, 7, 6, False)


def test_speculation_is_read_from_the_counters() -> None:
    records = healthy_records([0.5] * 100)
    observations = healthy_observations(
        records, spec_drafts=200.0, spec_accepted_tokens=440.0, spec_accepted_per_position=(180.0, 160.0, 100.0)
    )
    speculation = build_report(make_evidence(records, observations)).points[0].speculation
    assert speculation is not None
    assert speculation.acceptance_length == pytest.approx(3.2)
    assert speculation.per_position == pytest.approx((0.9, 0.8, 0.5))


@pytest.mark.parametrize("changes", [{}, {"spec_drafts": 0.0, "spec_accepted_tokens": 0.0}, {"spec_drafts": 5.0}])
def test_there_is_no_speculation_where_the_engine_drafts_nothing_or_is_silent(changes: dict[str, Any]) -> None:
    records = healthy_records([0.5] * 10)
    report = build_report(make_evidence(records, healthy_observations(records, **changes)))
    assert report.points[0].speculation is None


def test_a_steady_point_and_one_that_is_not() -> None:
    rng = np.random.default_rng(1)
    latencies = rng.lognormal(-1, 0.2, 200)
    assert point_of(healthy_records(latencies.tolist())).steady is True
    latencies[:30] *= 3
    assert point_of(healthy_records(latencies.tolist())).steady is False
    assert point_of(healthy_records(latencies[:99].tolist())).steady is None


@pytest.mark.parametrize(
    "point",
    [
        {"rate": 2, "arrivals": "poisson"},
        {"trace": "calls.jsonl"},
        {"streams": 20, "barge_in": {"share": 0.2, "after_s": [0.3, 0.8]}},
    ],
)
def test_other_kinds_of_load_are_neither_streams_nor_concurrent_requests(point: dict[str, Any]) -> None:
    recipe = make_recipe(load={"ladder": [point]})
    (report,) = build_report(healthy(points=1, recipe=recipe)).points
    assert (report.streams, report.concurrent) == (None, None)
    assert report.label == recipe.load.ladder[0].label
