from __future__ import annotations

from dataclasses import replace

import pytest

from bench.load.plan import Closed, Streams
from recipes.schema import TurnGap
from tests.truth.certify import Row, Scenario, measure, table
from tests.truth.faults import FAULTS, WHOLE

SHORT = Scenario(name="short", model=Closed(count=4, fastest_reply_s=0.2), ramp_s=0.2, steady_s=1.5, prompt_tokens=1000)


@pytest.mark.alone
def test_a_row_of_a_load_without_faults() -> None:
    row = measure(SHORT, core=None, server_core=None)
    assert row.requests > 4
    assert row.miscounted == 0
    assert row.asked == 4
    assert row.cpu_s > 0
    assert 500 < row.truth_ms[0] < 1500  # the law says 600; a busy machine is late
    assert row.stamp_p99_ms is not None
    assert row.reconnected == 0
    assert "short" in table([row])


@pytest.mark.alone
def test_every_fault_under_load_is_counted_as_what_it_is() -> None:
    fates = len(FAULTS) + len(WHOLE)
    faulty = replace(
        SHORT,
        model=Streams(count=fates, gap=TurnGap(distribution="fixed", mean_s=0.2)),
        faults=True,
    )
    row = measure(faulty, core=None, server_core=None)
    assert row.requests > 2 * fates
    assert row.miscounted == 0
    assert row.reconnected > 0  # some kept connections were closed, and that cost no request


GOOD = Row(
    client="ours",
    scenario="x",
    requests=100,
    miscounted=0,
    truth_ms=(600.0, 765.0, 800.0),
    e2e_error_ms=(0.1, -0.2, 0.3),
    ttft_error_ms=(0.1, 0.2, 0.3),
    cpu_s=1.0,
    in_flight=15.95,
    asked=16,
    first_s=0.1,
    memory_mb=2500.0,
    lag_p99_ms=9.0,
    stamp_p99_ms=None,
    send_p99_ms=None,
    reconnected=0,
)


def test_limits() -> None:
    assert GOOD.broken(SHORT) == []
    bad = replace(
        GOOD,
        miscounted=1,
        e2e_error_ms=(0.0, -1.1, 0.0),
        ttft_error_ms=(0.0, 0.0, 1.2),
        cpu_s=5.1,
        in_flight=15.8,
        first_s=3.1,
    )
    names = [text.rpartition(" >")[0].rpartition(" ")[0] for text in bad.broken(SHORT)]
    assert sorted(names) == ["CPU", "E2E error", "TTFT error", "first request", "in flight", "miscounted"]
    assert bad.broken(replace(SHORT, faults=True)) == [
        text for text in bad.broken(SHORT) if "error" not in text and "flight" not in text
    ]
    assert [text.split()[0] for text in GOOD.broken(replace(SHORT, idle=True))] == ["lag", "memory"]
