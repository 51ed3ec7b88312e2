"""Columns say what the records say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bench.records import Outcome, RequestRecord
from bench.report.columns import Columns
from bench.report.table import table_of
from tests.report.factories import make_failure, make_record


def columns(*records: RequestRecord) -> Columns:
    return Columns.of(table_of(records))


def test_latencies_are_those_of_the_record() -> None:
    record = make_record(intended_s=20.0, first_token_s=20.3, last_token_s=21.2, done_s=21.25, completion_tokens=10)
    found = columns(record)
    assert found.e2e.tolist() == [record.e2e_s]
    assert found.ttft.tolist() == [record.ttft_s]
    assert found.tpot.tolist() == [record.tpot_s]
    assert found.tpot[0] == pytest.approx(0.1)


def test_time_per_token_is_from_usage_and_not_per_chunk() -> None:
    # Ten tokens in two chunks, as with speculative decoding.
    record = make_record(first_token_s=11.0, last_token_s=11.9, chunk_s=(11.0, 11.9), done_s=12.0)
    assert columns(record).tpot[0] == pytest.approx(0.9 / 9)


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.OK])
def test_whatever_is_not_ok_is_infinitely_late(outcome: Outcome) -> None:
    found = columns(make_record(outcome=outcome))
    assert found.e2e.tolist() == found.ttft.tolist() == found.tpot.tolist() == [math.inf]
    assert found.sampled.tolist() == [outcome is not Outcome.BARGE_IN]


def test_priming_is_no_sample() -> None:
    assert columns(make_record(primed=True), make_record()).sampled.tolist() == [False, True]


def test_one_token_has_no_time_per_token() -> None:
    assert np.isnan(columns(make_record(requested_tokens=1, completion_tokens=1)).tpot).tolist() == [True]


def test_an_ok_record_without_times_is_no_latency() -> None:
    found = columns(make_record(first_token_s=None, last_token_s=None))
    assert found.ttft.tolist() == found.tpot.tolist() == [math.inf]


def test_what_is_none_is_nan() -> None:
    found = columns(make_failure(Outcome.CONNECT, sent_s=None, status=None), make_record())
    for column in (found.sent, found.first_token, found.last_token, found.prompt, found.completion, found.status):
        assert np.isnan(column).tolist() == [True, False]
    assert found.has_finish.tolist() == [False, True]


def test_segments_are_found_by_record() -> None:
    found = columns(
        make_record(segments=((1, 10), (2, 20))), make_record(segments=()), make_record(segments=((3, 30),))
    )
    assert found.segment_start.tolist() == [0, 2, 2, 3]
    assert found.segment_key.tolist() == [1, 2, 3]
    assert found.segment_tokens.tolist() == [10, 20, 30]


def test_there_may_be_no_records() -> None:
    found = columns()
    assert len(found.e2e) == len(found.segment_key) == 0
    assert found.segment_start.tolist() == [0]
