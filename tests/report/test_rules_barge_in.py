"""The rule about interrupted replies: an engine that goes on generating for nobody is caught by its own counter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bench.records import Outcome
from bench.report import rules_barge_in
from bench.report.measurement import Measurement
from tests.report.factories import (
    STEADY,
    healthy,
    healthy_observations,
    make_evidence,
    make_failure,
    make_recipe,
    make_record,
)

if TYPE_CHECKING:
    from bench.records import RequestRecord
    from bench.report.model import Check

TOKENS = 101
RECIPE = make_recipe(
    workload={"output_tokens": TOKENS},
    load={"ladder": [{"streams": 20, "barge_in": {"share": 0.2, "after_s": [0.3, 0.8]}}]},
)


def complete(number: int) -> RequestRecord:
    """101 tokens, the first after 0.2 s, then one every 10 ms."""
    begin = STEADY + number
    return make_record(
        request=number,
        intended_s=begin,
        first_token_s=begin + 0.2,
        last_token_s=begin + 1.2,
        done_s=begin + 1.2,
        completion_tokens=TOKENS,
        requested_tokens=TOKENS,
    )


def interrupted(number: int, *, first_token: bool = True) -> RequestRecord:
    """Heard for 0.3 s: 31 tokens, and the 10 that an engine makes until it notices."""
    begin = STEADY + number
    return make_failure(
        Outcome.BARGE_IN,
        request=number,
        intended_s=begin,
        first_token_s=begin + 0.2 if first_token else None,
        done_s=begin + 0.5,
        requested_tokens=TOKENS,
    )


TEN = [complete(number) for number in range(10)]
TWO = [interrupted(number) for number in (20, 21)]


def check_of(records: list[RequestRecord], generated: float | None, recipe: Any = RECIPE) -> Check:
    observations = healthy_observations(records, generation_tokens=generated)
    (check,) = rules_barge_in.generation_stopped(Measurement.of(make_evidence(records, observations, recipe=recipe)))
    assert (check.advice == "") == (check.verdict == "kept")
    return check


@pytest.mark.parametrize(
    ("for_each", "verdict"),
    [
        (0, "kept"),
        (31, "kept"),
        (41, "kept"),
        (42, "broken"),
        (TOKENS, "broken"),  # it never stopped
    ],
)
def test_what_was_generated_for_nobody(for_each: int, verdict: str) -> None:
    check = check_of(TEN + TWO, 10.0 * TOKENS + 2 * for_each)
    assert check.verdict == verdict
    assert f"{2 * for_each} tokens for 2 interrupted replies of 202 tokens" in check.measured
    assert "at most 82 tokens" in check.expected


@pytest.mark.parametrize(("for_each", "verdict"), [(11, "kept"), (12, "broken")])
def test_a_reply_that_had_not_begun(for_each: int, verdict: str) -> None:
    records = [*TEN, *(interrupted(number, first_token=False) for number in (20, 21))]
    assert check_of(records, 10.0 * TOKENS + 2 * for_each).verdict == verdict


def test_other_requests_without_usage_may_have_had_everything() -> None:
    cut = make_failure(Outcome.CUT, request=30, intended_s=STEADY + 30, requested_tokens=TOKENS)
    assert check_of([*TEN, *TWO, cut], 11.0 * TOKENS + 82).verdict == "kept"
    assert check_of([*TEN, *TWO, cut], 11.0 * TOKENS + 83).verdict == "broken"


def test_replies_that_are_too_short_to_tell() -> None:
    late = make_failure(
        Outcome.BARGE_IN,
        intended_s=STEADY + 20,
        first_token_s=STEADY + 20.2,
        done_s=STEADY + 21.1,
        requested_tokens=TOKENS,
    )
    assert check_of([*TEN, late], 10.0 * TOKENS + TOKENS).verdict == "unknown"


@pytest.mark.parametrize(
    ("records", "generated", "told"),
    [
        (TEN + TWO, None, "counters before or after this point are missing"),
        (TEN, 10.0 * TOKENS, "no reply was interrupted"),
        (TWO, 60.0, "no reply was complete"),
    ],
)
def test_what_cannot_be_known(records: list[RequestRecord], generated: float | None, told: str) -> None:
    check = check_of(records, generated)
    assert check.verdict == "unknown"
    assert told in check.measured


def test_other_points_have_nothing_to_stop() -> None:
    assert rules_barge_in.generation_stopped(Measurement.of(healthy([0.1] * 5))) == []
