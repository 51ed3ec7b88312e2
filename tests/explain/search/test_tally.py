"""Which requests break a limit: every metric, failures, interruptions, and what a busy client does to a point."""

import pytest

from bench.explain.search.tally import spoiled_points, told
from bench.explain.slo.parse import parse_slo
from bench.observe.observations import ClientSelf
from bench.records import Outcome
from bench.report.measurement import Measurement
from tests.report.factories import STEADY, healthy_observations, make_evidence, make_failure, make_record, phases

RECORDS = [
    make_record(primed=True, stream=-1, intended_s=0.1, took_s=9.0),
    make_record(intended_s=STEADY - 1, took_s=9.0),  # in the ramp
    make_record(intended_s=STEADY + 0, took_s=0.5),  # TTFT 0.2 s, then 0.25 s for nine tokens
    make_record(intended_s=STEADY + 1, took_s=1.5),  # TTFT 0.6 s, then 0.75 s
    make_record(intended_s=STEADY + 2, took_s=0.5, first_token_s=STEADY + 2.4, last_token_s=STEADY + 2.45),
    make_failure(Outcome.TIMEOUT, intended_s=STEADY + 3),
    make_record(intended_s=STEADY + 4, took_s=0.1, outcome=Outcome.BARGE_IN),
]


@pytest.mark.parametrize(
    ("slo", "bad"),
    [
        ("e2e:p50:1s", [False, True, False, True]),
        ("e2e:p50:500ms", [False, True, False, True]),
        ("ttft:p50:300ms", [False, True, True, True]),
        ("tpot:p50:40ms", [False, True, False, True]),
        ("goodput:50%:e2e<1s,ttft<300ms", [False, True, True, True]),
        ("goodput:50%:e2e<2s,tpot<10ms", [True, True, False, True]),
    ],
)
def test_a_request_is_bad_when_it_breaks_any_limit_or_fails(slo: str, bad: list[bool]) -> None:
    counts = told(Measurement.of(make_evidence(RECORDS, phases(0, 0))), 0, parse_slo(slo), ()).counts
    assert [window.tolist() for window in counts.windows] == [bad]


@pytest.mark.parametrize(("bend", "spoiled"), [({}, False), ({"lag_p99_s": 0.2}, True), ({"cpu_s": 99.0}, True)])
def test_a_client_that_could_not_keep_up_spoils_its_point(bend: dict[str, float], spoiled: bool) -> None:
    seen = [
        each.model_copy(update=bend) if isinstance(each, ClientSelf) else each for each in healthy_observations(RECORDS)
    ]
    measurement = Measurement.of(make_evidence(RECORDS, seen))
    assert told(measurement, 0, parse_slo("e2e:p50:1s"), spoiled_points(measurement)).spoiled is spoiled
