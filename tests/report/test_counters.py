"""What the engine must have counted, as far as the client can know."""

from __future__ import annotations

from typing import Any

import pytest

from bench.observe.observations import Counters, CounterValues
from bench.records import Outcome, RequestRecord
from bench.report.counters import Bounds, client_totals, increase
from bench.report.measurement import Measurement
from tests.report.factories import OUTPUT, PROMPT, make_evidence, make_failure, make_record


def totals(*records: RequestRecord) -> dict[str, tuple[int, int]]:
    found = client_totals(Measurement.of(make_evidence(records, [])), 0, 0)
    return {name: (bounds.low, bounds.high) for name, bounds in found.items()}


def all_of(requests: tuple[int, int], prompt: tuple[int, int], reply: tuple[int, int]) -> dict[str, tuple[int, int]]:
    return {"requests_finished": requests, "prompt_tokens": prompt, "generation_tokens": reply}


def test_replies_with_usage_are_known_to_the_token() -> None:
    assert totals(make_record(), make_record(primed=True)) == all_of((2, 2), (200, 200), (20, 20))


@pytest.mark.parametrize("outcome", [Outcome.SHORT, Outcome.PROMPT_MISMATCH, Outcome.NO_DONE])
def test_a_failure_with_usage_is_known_as_well(outcome: Outcome) -> None:
    record = make_record(outcome=outcome, prompt_tokens=97, completion_tokens=3)
    assert totals(record) == all_of((1, 1), (97, 97), (3, 3))


@pytest.mark.parametrize("outcome", [Outcome.TIMEOUT, Outcome.CANCELLED, Outcome.CUT, Outcome.BARGE_IN])
def test_a_reply_that_was_given_up_after_its_first_token_had_its_prompt_counted(outcome: Outcome) -> None:
    record = make_record(outcome=outcome, prompt_tokens=None, completion_tokens=None)
    assert totals(record) == all_of((0, 1), (PROMPT, PROMPT), (1, OUTPUT))


@pytest.mark.parametrize("status", [None, 200, 500, 503])
def test_a_reply_that_was_given_up_before_its_first_token_may_count_or_not(status: int | None) -> None:
    record = make_failure(Outcome.TIMEOUT, status=status)
    assert totals(record) == all_of((0, 1), (0, PROMPT), (0, OUTPUT))


@pytest.mark.parametrize(
    "changes", [{"status": 400}, {"status": 404}, {"sent_s": None, "status": None}], ids=["400", "404", "never sent"]
)
def test_what_never_reached_the_engine_counts_nothing(changes: dict[str, Any]) -> None:
    assert totals(make_failure(Outcome.HTTP_ERROR, **changes)) == all_of((0, 0), (0, 0), (0, 0))


def test_bounds_contain_their_ends() -> None:
    bounds = Bounds(3, 1500)
    assert 3 in bounds
    assert 1500 in bounds
    assert 2 not in bounds
    assert 1501 not in bounds
    assert str(bounds) == "3 to 1,500"
    assert str(Bounds(1500, 1500)) == "1,500"


def counters(when: str, **values: Any) -> Counters:
    return Counters.model_validate({"t": 0.0, "run": 0, "point": 0, "when": when, "values": CounterValues(**values)})


def test_an_increase_is_after_minus_before() -> None:
    seen = [counters("before", prompt_tokens=10.0), counters("after", prompt_tokens=25.0)]
    assert increase(Measurement.of(make_evidence([], seen)), 0, 0, "prompt_tokens") == 15.0


@pytest.mark.parametrize(
    "seen",
    [
        [],
        [counters("before", prompt_tokens=1.0)],
        [counters("after", prompt_tokens=1.0)],
        [counters("before"), counters("after", prompt_tokens=1.0)],
        [counters("before", prompt_tokens=1.0), counters("after")],
    ],
)
def test_an_increase_is_unknown_without_both_ends(seen: list[Counters]) -> None:
    assert increase(Measurement.of(make_evidence([], seen)), 0, 0, "prompt_tokens") is None
