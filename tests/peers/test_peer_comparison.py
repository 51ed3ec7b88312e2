from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.peers.compare import NothingToCompareError, compare, in_flight, percentiles
from bench.peers.tool import Counted


def truth(number: int, received: float, e2e: float, *, tag: str = "", ended: str = "complete") -> dict[str, Any]:
    whole = ended == "complete"
    return {
        "number": number,
        "tag": tag,
        "status": 200,
        "ended": ended,
        "fault": "none",
        "received_s": received,
        "first_token_s": received + e2e / 2 if whole else None,
        "done_s": received + e2e if whole else None,
        "ended_s": received + e2e,
    }


# One request at a time: 100 of them, of 0.1 s to 1.09 s, one every two seconds.
HUNDRED = [truth(number, 2.0 * number, 0.1 + number / 100) for number in range(100)]

# Order statistics of 0.10, 0.11, ..., 1.09: the 50th, the 95th, the 99th.
EXACT = Counted(succeeded=100, failed=0, e2e_ms=(590.0, 1040.0, 1080.0), ttft_ms=(295.0, 520.0, 540.0), rule="order")


def test_a_request_that_a_tool_does_not_report_is_miscounted() -> None:
    assert compare(EXACT, [truth(0, -10.0, 9.0), *HUNDRED]).miscounted == 1


def test_a_tool_that_tells_the_truth() -> None:
    found = compare(EXACT, HUNDRED)
    assert found.truth_e2e_ms == pytest.approx(EXACT.e2e_ms)
    assert found.e2e_error_ms == pytest.approx((0, 0, 0), abs=1e-9)
    assert found.ttft_error_ms == pytest.approx((0, 0, 0), abs=1e-9)
    assert (found.requests, found.miscounted, found.uncounted) == (100, 0, 0)
    assert found.first_s == 0.0
    assert found.window_s == (50.0, 198.0)
    assert found.window_requests == 74
    assert found.in_flight == pytest.approx(sum(0.1 + n / 100 for n in range(25, 99)) / 148)


def test_errors_have_the_sign_of_the_tool() -> None:
    found = compare(replace(EXACT, e2e_ms=(593.0, 1039.0, 1080.0), ttft_ms=(0.0, 520.0, 541.0)), HUNDRED)
    assert found.e2e_error_ms == pytest.approx((3.0, -1.0, 0.0), abs=1e-9)
    assert found.ttft_error_ms == pytest.approx((-295.0, 0.0, 1.0), abs=1e-9)


def test_only_the_requests_that_a_tool_names() -> None:
    named = [{**entry, "tag": f"t{entry['number']}"} for entry in HUNDRED]
    counted = Counted(
        succeeded=3,
        failed=0,
        e2e_ms=(200.0, 300.0, 300.0),
        ttft_ms=(100.0, 150.0, 150.0),
        rule="order",
        tags=frozenset({"t0", "t10", "t20"}),
    )
    found = compare(counted, named)
    assert found.e2e_error_ms == pytest.approx((0, 0, 0), abs=1e-9)
    assert (found.requests, found.uncounted) == (3, 97)
    before = truth(0, -10.0, 9.0)
    assert compare(counted, [before, *named]).first_s == -10.0  # a tool that sends has begun, whatever it counts


@pytest.mark.parametrize(
    ("succeeded", "failed", "wrong"),
    [(99, 1, 0), (100, 0, 1), (99, 0, 1), (97, 3, 2), (98, 0, 1)],
)
def test_miscounts(succeeded: int, failed: int, wrong: int) -> None:
    truths = [*HUNDRED[:-1], truth(99, 198.0, 0.3, ended="cut")]
    found = compare(replace(EXACT, succeeded=succeeded, failed=failed), truths)
    assert found.requests == 99
    assert found.miscounted == wrong


def test_a_failure_that_ends_in_order_is_a_failure() -> None:
    for change in ({"fault": "error_event"}, {"status": 503}):
        truths = [*HUNDRED[:-1], {**HUNDRED[-1], **change}]
        assert compare(replace(EXACT, succeeded=99, failed=1), truths).miscounted == 0
        assert compare(EXACT, truths).miscounted == 1


def test_nothing_to_compare() -> None:
    with pytest.raises(NothingToCompareError):
        compare(EXACT, [])
    with pytest.raises(NothingToCompareError):
        compare(EXACT, [truth(0, 0.0, 1.0, ended="client")])


@given(st.lists(st.floats(min_value=0, max_value=1e3), min_size=1, max_size=60))
def test_percentiles_are_numpys(seconds: list[float]) -> None:
    for rule, method in (("linear", "linear"), ("order", "inverted_cdf")):
        expected = np.quantile(seconds, (0.5, 0.95, 0.99), method=method) * 1e3  # type: ignore[call-overload]
        assert percentiles(seconds, rule) == pytest.approx(tuple(expected), rel=1e-9, abs=1e-9)  # type: ignore[arg-type]


def test_requests_in_flight_are_those_open_in_the_span() -> None:
    truths = [truth(0, 0.0, 10.0), truth(1, 4.0, 2.0), truth(2, 20.0, 1.0)]
    assert in_flight(truths, 0.0, 10.0) == pytest.approx(1.2)
    assert in_flight(truths, 5.0, 6.0) == pytest.approx(2.0)
    assert in_flight(truths, 5.0, 5.0) == 0.0
