"""Rules about the window and the workload in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bench.report import rules_window
from bench.report.columns import Columns
from bench.report.measurement import Measurement
from bench.report.rules_workload import fresh_prompts, prompt_hashes
from bench.report.table import table_of
from tests.report.factories import (
    DRAIN,
    STEADY,
    healthy,
    healthy_records,
    make_evidence,
    make_recipe,
    make_record,
    phases,
)

if TYPE_CHECKING:
    from bench.records import RequestRecord
    from bench.report.model import Check


def only(checks: list[Check]) -> Check:
    (check,) = checks
    assert (check.advice == "") == (check.verdict == "kept")
    return check


@pytest.mark.parametrize(("slow", "n", "verdict"), [(0, 200, "kept"), (30, 200, "broken"), (0, 99, "unknown")])
def test_the_beginning_of_the_window(slow: int, n: int, verdict: str) -> None:
    latencies = np.random.default_rng(1).lognormal(-1, 0.2, n)
    latencies[:slow] *= 3
    found = Measurement.of(make_evidence(healthy_records(latencies.tolist()), phases(0, 0)))
    assert only(rules_window.beginning_decides_nothing(found)).verdict == verdict


def closed_loop(records: list[RequestRecord], *, reached: int = 5) -> Measurement:
    recipe = make_recipe(load={"ladder": [{"concurrent": 2}, {"streams": 20}]})
    return Measurement.of(make_evidence(records, [*phases(0, 0)[:reached], *phases(0, 1, 1000.0)], recipe=recipe))


def slot(until: float, **changes: Any) -> RequestRecord:
    return make_record(intended_s=STEADY - 1, sent_s=STEADY - 1, done_s=until, **changes)


@pytest.mark.parametrize(
    ("until", "verdict"),
    [
        (DRAIN + 5, "kept"),
        (DRAIN - 1.9, "kept"),  # 1.981 in flight on average
        (DRAIN - 2.1, "broken"),  # 1.979
        (STEADY, "broken"),  # a silent cap of one
    ],
)
def test_a_closed_loop_keeps_as_many_in_flight_as_asked(until: float, verdict: str) -> None:
    assert only(rules_window.as_many_in_flight(closed_loop([slot(DRAIN), slot(until)]))).verdict == verdict


def test_more_in_flight_than_asked_is_wrong_as_well() -> None:
    assert only(rules_window.as_many_in_flight(closed_loop([slot(DRAIN)] * 3))).verdict == "broken"


def test_in_flight_is_unknown_without_a_window() -> None:
    assert only(rules_window.as_many_in_flight(closed_loop([slot(DRAIN)], reached=2))).verdict == "unknown"


def test_a_point_that_was_cut_off_says_nothing_of_what_was_asked_for() -> None:
    """On the H200, a client that was killed in a closed loop left 15.49 of 16: the open ones have no record."""
    assert only(rules_window.as_many_in_flight(closed_loop([slot(STEADY)], reached=4))).verdict == "unknown"
    assert only(open_loop(50, "fixed", reached=4)).verdict == "unknown"


def open_loop(count: int, arrivals: str, *, reached: int = 5) -> list[Check]:
    recipe = make_recipe(load={"ladder": [{"rate": 2, "arrivals": arrivals}, {"streams": 20}]})
    records = [make_record(request=n, intended_s=STEADY + 100.0 * n / count) for n in range(count)]
    evidence = make_evidence(records, [*phases(0, 0)[:reached], *phases(0, 1, 1000.0)], recipe=recipe)
    return rules_window.as_many_arrivals(Measurement.of(evidence))


@pytest.mark.parametrize(
    ("arrivals", "count", "verdict"),
    [
        ("fixed", 200, "kept"),
        ("fixed", 199, "kept"),
        ("fixed", 198, "broken"),
        ("fixed", 202, "broken"),
        ("poisson", 130, "kept"),  # 200 +- 5 * sqrt(200)
        ("poisson", 129, "broken"),  # a silent cap
        ("poisson", 271, "broken"),
    ],
)
def test_an_open_loop_sends_what_its_rate_says(arrivals: str, count: int, verdict: str) -> None:
    assert only(open_loop(count, arrivals)).verdict == verdict


def test_arrivals_are_unknown_without_a_window_and_no_matter_of_streams() -> None:
    assert only(open_loop(200, "fixed", reached=2)).verdict == "unknown"
    assert rules_window.as_many_arrivals(Measurement.of(healthy([0.1] * 5))) == []


def test_streams_are_not_asked_to_be_in_flight() -> None:
    assert rules_window.as_many_in_flight(Measurement.of(healthy([0.1] * 5))) == []


# prompts never repeat between points


def test_fresh_prompts_are_kept() -> None:
    check = only(fresh_prompts(Measurement.of(healthy([0.1] * 10, runs=2, points=2))))
    assert check.point is None
    assert (check.verdict, check.measured) == ("kept", "different prompts: 44, requests: 44")


def test_a_prompt_may_repeat_within_its_point() -> None:
    check = only(fresh_prompts(Measurement.of(make_evidence([make_record(), make_record()], []))))
    assert (check.verdict, check.measured) == ("kept", "different prompts: 1, requests: 2")


@pytest.mark.parametrize("elsewhere", [{"point": 1}, {"run": 1}])
def test_a_prompt_that_was_seen_elsewhere_breaks_it(elsewhere: dict[str, int]) -> None:
    records = [make_record(segments=((5, 60), (6, 40))), make_record(segments=((5, 60), (6, 40)), **elsewhere)]
    check = only(fresh_prompts(Measurement.of(make_evidence(records, []))))
    assert check.verdict == "broken"
    assert check.measured == "prompts that were also sent at another point or in another run: 1"


def test_a_shared_prefix_is_no_repeated_prompt() -> None:
    records = [make_record(segments=((5, 60), (6, 40))), make_record(segments=((5, 60), (7, 40)), point=1)]
    assert only(fresh_prompts(Measurement.of(make_evidence(records, [])))).verdict == "kept"


def test_without_requests_nothing_repeats() -> None:
    check = only(fresh_prompts(Measurement.of(make_evidence([], []))))
    assert (check.verdict, check.measured) == ("kept", "different prompts: 0, requests: 0")


SEGMENTS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=4).map(tuple)


@given(prompts=st.lists(SEGMENTS, max_size=12))
@example(prompts=[((1, 2), (2, 1)), ((2, 1), (1, 2))])
def test_prompts_have_the_same_hash_exactly_when_they_are_the_same(prompts: list[tuple[tuple[int, int], ...]]) -> None:
    hashes = prompt_hashes(Columns.of(table_of(make_record(segments=prompt) for prompt in prompts))).tolist()
    for one, hash_of_one in zip(prompts, hashes, strict=True):
        for other, hash_of_other in zip(prompts, hashes, strict=True):
            assert (one == other) == (hash_of_one == hash_of_other)
