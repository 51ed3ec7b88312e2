"""When each load model sends, through a whole point."""

from __future__ import annotations

from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from bench.errors import UsageError
from bench.load.gaps import gaps, opening
from bench.load.open import arrival_times
from bench.load.plan import BargeIn, Closed, Open, Replay
from bench.load.trace import read_trace
from bench.records import Outcome
from tests.load.one_point import GAP, RAMP_S, STEADY_S, STREAMS, Unprimed, fresh, next_point, plan_of, run, tag_of
from tests.truth.workload import TruthSource

if TYPE_CHECKING:
    from pathlib import Path

    from tests.truth.process import TruthServer

pytestmark = pytest.mark.alone


def test_the_gap_runs_from_the_end_of_a_reply_to_the_next_intended_time(truth: TruthServer) -> None:
    plan = plan_of(STREAMS)
    seen = run(truth.base_url, plan, fresh())
    assert set(seen.by_stream()) == set(range(6))
    for stream, records in seen.by_stream().items():
        assert records[0].intended_s == pytest.approx(seen.phases["ramp"] + opening(stream, 6, RAMP_S))
        silences = islice(gaps(GAP, seed=7, stream=stream), len(records) - 1)
        for (earlier, later), gap in zip(pairwise(records), silences, strict=True):
            assert later.intended_s == earlier.done_s + gap


def test_closed_loop_holds_the_number_asked_for(truth: TruthServer) -> None:
    source = fresh(behaviour={"ttft_s": 0.05})
    seen = run(truth.base_url, plan_of(Closed(count=8, fastest_reply_s=0.05)), source)
    for slot, records in seen.by_stream().items():
        assert records[0].intended_s == pytest.approx(seen.phases["ramp"] + opening(slot, 8, RAMP_S))
        for earlier, later in pairwise(records):
            assert later.intended_s == earlier.done_s
    entries = [entry for entry in truth.truth() if entry["tag"].startswith(f"{source.point}/")]
    assert max(entry["in_flight"] for entry in entries) == 8


def test_slots_of_a_failing_server_do_not_spin(truth: TruthServer) -> None:
    source = fresh(behaviour={"status": 503})
    seen = run(truth.base_url, plan_of(Closed(count=3)), source)
    assert [len(records) for records in seen.by_stream().values()] == [1, 1, 1]
    assert seen.outcomes() == {Outcome.HTTP_ERROR}


@pytest.mark.parametrize("arrivals", ["poisson", "fixed"])
def test_no_reply_delays_an_arrival_of_an_open_loop(truth: TruthServer, arrivals: Any) -> None:
    model = Open(rate=37.0, arrivals=arrivals, callers=3)
    source = Unprimed(point=next_point(), behaviour={"fault": "hang", "fault_after": 1})
    seen = run(truth.base_url, plan_of(model, drain_s=0.05), source)
    expected = list(arrival_times(model, seed=7, ramp_s=RAMP_S, length_s=RAMP_S + STEADY_S))
    assert [record.intended_s - seen.phases["ramp"] for record in seen.load] == pytest.approx(expected)
    assert [record.stream for record in seen.load] == [number % 3 for number in range(len(expected))]
    assert seen.outcomes() == {Outcome.TIMEOUT}


def test_barge_in_cancels_the_request_and_the_engine_stops_generating(truth: TruthServer) -> None:
    model = BargeIn(streams=STREAMS, share=0.5, after_s=(0.05, 0.1))
    source = fresh(output_tokens=400, behaviour={"gap_s": 0.001})
    before = truth.counter("vllm:generation_tokens_total")
    seen = run(truth.base_url, plan_of(model), source)
    assert seen.outcomes() == {Outcome.OK, Outcome.BARGE_IN}
    entries = {entry["tag"]: entry for entry in truth.truth() if entry["tag"].startswith(f"{source.point}/")}
    generated = sum(entry["generated_tokens"] for entry in entries.values())
    assert truth.counter("vllm:generation_tokens_total") - before == generated
    for record in seen.load:
        entry = entries[tag_of(source, record)]
        if record.outcome is Outcome.BARGE_IN:
            assert entry["ended"] == "client"
            assert entry["generated_tokens"] < 400
            assert record.done_s - record.intended_s >= 0.05
        else:
            assert entry["ended"] == "complete"
    interrupted = [record for record in seen.load if record.outcome is Outcome.BARGE_IN]
    assert any(later.intended_s > record.done_s for record in interrupted for later in seen.by_stream()[record.stream])


def test_a_reply_that_is_complete_in_time_is_not_interrupted(truth: TruthServer) -> None:
    model = BargeIn(streams=STREAMS, share=1.0, after_s=(20.0, 20.0))
    assert run(truth.base_url, plan_of(model), fresh()).outcomes() == {Outcome.OK}


@pytest.mark.parametrize(
    ("share", "after_s"), [(-0.1, (0.0, 1.0)), (1.1, (0.0, 1.0)), (0.5, (2.0, 1.0)), (0.5, (-1.0, 1.0))]
)
def test_barge_in_that_makes_no_sense(share: float, after_s: tuple[float, float]) -> None:
    with pytest.raises(UsageError, match="barge-in"):
        run("http://127.0.0.1:9", plan_of(BargeIn(streams=STREAMS, share=share, after_s=after_s)), TruthSource())


def test_replay_sends_the_trace_at_its_times(truth: TruthServer, tmp_path: Path) -> None:
    lines = [(100.0, "router"), (100.05, "booking"), (100.05, "router"), (100.3, "booking"), (100.7, "router")]
    trace = tmp_path / "trace.jsonl"
    trace.write_bytes(b"".join(orjson.dumps({"time": at, "agent": agent, "tokens": 52}) + b"\n" for at, agent in lines))
    seen = run(truth.base_url, plan_of(Replay(trace=trace, lines=tuple(read_trace(trace)), callers=2)), fresh())
    assert [round(record.intended_s - seen.phases["ramp"], 9) for record in seen.load] == [0.0, 0.05, 0.05, 0.3]
    assert [record.agent for record in seen.load] == ["router", "booking", "router", "booking"]
    assert len({(record.stream, record.conversation, record.turn) for record in seen.load}) == 4
    assert seen.outcomes() == {Outcome.OK}
    assert seen.phases["done"] >= seen.phases["drain"]
