"""Rules about the client: it was never the bottleneck, and its records keep to their own definition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bench.records import Outcome
from bench.report import rules_client
from bench.report.measurement import Measurement
from tests.report.factories import (
    OUTPUT,
    healthy_records,
    make_client,
    make_evidence,
    make_failure,
    make_record,
    phases,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.records import RequestRecord
    from bench.report.model import Check


def measured(records: list[RequestRecord], **client: Any) -> Measurement:
    return Measurement.of(make_evidence(records, [*phases(0, 0), make_client(**client)]))


def only(checks: list[Check]) -> Check:
    (check,) = checks
    assert (check.advice == "") == (check.verdict == "kept")
    return check


FAST, SLOW = healthy_records([0.2] * 100), healthy_records([3.0] * 100)


@pytest.mark.parametrize(
    ("records", "client", "verdict"),
    [
        (FAST, {"lag_p99_s": 0.005, "lag_max_s": 0.05}, "kept"),
        (FAST, {"lag_p99_s": 0.0051}, "broken"),
        (FAST, {"lag_max_s": 0.051}, "broken"),
        # 1 % and 10 % of a median of 3 s.
        (SLOW, {"lag_p99_s": 0.0299, "lag_max_s": 0.299}, "kept"),
        (SLOW, {"lag_p99_s": 0.0301}, "broken"),
        (SLOW, {"lag_max_s": 0.301}, "broken"),
        ([], {"lag_p99_s": 0.0051}, "broken"),
        # Failures are infinitely late, and infinitely much lag would pass.
        ([make_failure(Outcome.TIMEOUT)] * 50, {"lag_p99_s": 0.0051}, "broken"),
    ],
)
def test_lag_of_the_event_loop(records: list[RequestRecord], client: dict[str, Any], verdict: str) -> None:
    assert only(rules_client.event_loop(measured(records, **client))).verdict == verdict


def test_what_was_compared_is_told() -> None:
    check = only(rules_client.event_loop(measured(SLOW, lag_p99_s=0.0301)))
    assert check.measured == "lag p99 30.1 ms, longest 2 ms"
    assert check.expected == "p99 at most 30 ms, longest at most 300 ms"


@pytest.mark.parametrize(
    ("rule", "field"),
    [(rules_client.sent_on_time, "send_delay_p99_s"), (rules_client.stamped_on_time, "stamp_delay_p99_s")],
)
@pytest.mark.parametrize(
    ("records", "delay", "verdict"),
    [
        (FAST, 0.005, "kept"),
        (FAST, 0.0051, "broken"),
        (SLOW, 0.0299, "kept"),
        (SLOW, 0.0301, "broken"),
        (FAST, None, "unknown"),
    ],
)
def test_delays_of_sending_and_stamping(
    rule: Callable[[Measurement], list[Check]],
    field: str,
    records: list[RequestRecord],
    delay: float | None,
    verdict: str,
) -> None:
    assert only(rule(measured(records, **{field: delay}))).verdict == verdict


@pytest.mark.parametrize(
    ("client", "verdict"),
    [
        ({"cpu_s": 70.0, "wall_s": 100.0}, "kept"),
        ({"cpu_s": 71.0, "wall_s": 100.0}, "broken"),
        ({"cpu_s": 140.0, "wall_s": 100.0, "processes": 2}, "kept"),
        ({"cpu_s": 141.0, "wall_s": 100.0, "processes": 2}, "broken"),
        ({"wall_s": 0.0}, "unknown"),
        ({"processes": 0}, "unknown"),
    ],
)
def test_one_core_of_a_process_may_not_be_busy_most_of_the_time(client: dict[str, Any], verdict: str) -> None:
    assert only(rules_client.cpu_to_spare(measured(FAST, **client))).verdict == verdict


@pytest.mark.parametrize(
    "rule",
    [rules_client.event_loop, rules_client.sent_on_time, rules_client.stamped_on_time, rules_client.cpu_to_spare],
)
def test_a_client_that_says_nothing_of_itself_is_unknown(rule: Callable[[Measurement], list[Check]]) -> None:
    assert only(rule(Measurement.of(make_evidence(FAST, phases(0, 0))))).verdict == "unknown"


@pytest.mark.parametrize(
    "changes",
    [
        {"status": 500},
        {"status": None},
        {"finish_reason": None},
        {"prompt_tokens": None},
        {"prompt_tokens": 99},
        {"completion_tokens": None},
        {"completion_tokens": OUTPUT - 1},
        {"completion_tokens": OUTPUT - 1, "requested_tokens": OUTPUT - 1},  # not what the recipe asks for
        {"sent_s": None},
        {"first_token_s": None},
        {"last_token_s": None},
        {"sent_s": 10.3},
        {"first_token_s": 10.46},
        {"done_s": 10.4},
        {"done_s": 9.0, "sent_s": 8.0, "first_token_s": 8.5, "last_token_s": 8.9},
    ],
)
def test_a_reply_called_complete_that_is_not_breaks_the_rule(changes: dict[str, Any]) -> None:
    check = only(rules_client.complete_replies(measured([make_record(), make_record(**changes)])))
    assert check.verdict == "broken"
    assert check.measured == "of 2 replies counted as complete, 1 are not"


def test_failures_are_not_asked_to_be_complete() -> None:
    records = [make_record(), make_failure(Outcome.CUT), make_record(outcome=Outcome.SHORT, completion_tokens=1)]
    check = only(rules_client.complete_replies(measured(records)))
    assert (check.verdict, check.measured) == ("kept", "1 complete reply")


def test_priming_may_ask_for_fewer_tokens() -> None:
    prime = make_record(primed=True, requested_tokens=1, completion_tokens=1)
    assert only(rules_client.complete_replies(measured([prime]))).verdict == "kept"
