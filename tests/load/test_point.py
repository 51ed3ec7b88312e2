from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import count, islice, pairwise
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from bench.errors import Exit, StreamproofError, UsageError
from bench.load.clock import RunClock
from bench.load.connection import Call
from bench.load.gaps import gaps, opening
from bench.load.http import Client
from bench.load.open import arrival_times
from bench.load.plan import BargeIn, Closed, Model, Open, PointPlan, Replay, Shard, Streams
from bench.load.point import run_point
from bench.load.trace import read_trace
from bench.observe.observations import ClientSelf, PhaseStarted
from bench.records import Outcome, RequestRecord
from recipes.schema import TurnGap
from tests.truth.process import running
from tests.truth.workload import TruthSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from bench.workload.turn import Turn
    from tests.truth.process import TruthServer

GAP = TurnGap(distribution="exponential", mean_s=0.05)
STREAMS = Streams(count=6, gap=GAP)
RAMP_S, STEADY_S = 0.2, 0.4


def plan_of(model: Model, **changes: Any) -> PointPlan:
    plan = PointPlan(
        point=2,
        run=1,
        seed=7,
        model=model,
        ramp_s=RAMP_S,
        steady_s=STEADY_S,
        drain_s=10.0,
        request_timeout_s=20.0,
    )
    return replace(plan, **changes)


@dataclass
class Seen:
    """What a point gave."""

    records: list[RequestRecord] = field(default_factory=list)
    phases: dict[str, float] = field(default_factory=dict)
    client: ClientSelf | None = None
    clock: RunClock = field(default_factory=RunClock.start)

    @property
    def load(self) -> list[RequestRecord]:
        return sorted((record for record in self.records if not record.primed), key=lambda record: record.request)

    @property
    def window(self) -> list[RequestRecord]:
        return [record for record in self.load if self.phases["steady"] <= record.intended_s < self.phases["drain"]]

    def outcomes(self) -> set[Outcome]:
        return {record.outcome for record in self.load}

    def by_stream(self) -> dict[int, list[RequestRecord]]:
        streams: dict[int, list[RequestRecord]] = defaultdict(list)
        for record in self.load:
            streams[record.stream].append(record)
        return streams


def run(
    base_url: str,
    plan: PointPlan,
    source: TruthSource,
    *,
    also: Callable[[RequestRecord], None] = lambda _: None,
    stop_if: Callable[[RequestRecord], bool] = lambda _: False,
    seen: Seen | None = None,
) -> Seen:
    seen = Seen() if seen is None else seen

    async def main() -> None:
        clock = seen.clock
        stop = asyncio.Event()

        def on_record(record: RequestRecord) -> None:
            seen.records.append(record)
            also(record)
            if stop_if(record):
                stop.set()

        def on_phase(observed: PhaseStarted | ClientSelf) -> None:
            assert (observed.point, observed.run) == (plan.point, plan.run)
            if isinstance(observed, PhaseStarted):
                seen.phases[observed.phase] = observed.t
            else:
                seen.client = observed

        async with Client(base_url, clock=clock, request_timeout_s=plan.request_timeout_s) as client:
            await run_point(plan, source, client, clock, on_record, on_phase, stop)

    asyncio.run(main())
    return seen


def tag_of(source: TruthSource, record: RequestRecord) -> str:
    if record.primed:
        return f"{source.point}/prime/{record.agent}"
    return f"{source.point}/{record.stream}/{record.conversation}/{record.turn}"


_points = count(1)


def fresh(**parts: Any) -> TruthSource:
    """A source whose tags no other test has."""
    return TruthSource(point=next(_points), **parts)


COUNTED = ("prompt_tokens_total", "generation_tokens_total", "request_success_total")


def counters(server: TruthServer) -> dict[str, float]:
    return {name: server.counter(f"vllm:{name}") for name in COUNTED}


@pytest.mark.parametrize(
    "model",
    [
        STREAMS,
        Streams(count=6, gap=TurnGap(distribution="lognormal", mean_s=0.05, sigma=0.5)),
        Streams(count=6, gap=TurnGap(distribution="fixed", mean_s=0.05)),
        Closed(count=5, fastest_reply_s=0.02),
        Open(rate=60.0, arrivals="poisson", callers=4),
        Open(rate=60.0, arrivals="fixed", callers=4),
    ],
    ids=lambda model: f"{type(model).__name__}",
)
def test_every_request_is_recorded_once_and_the_totals_are_the_servers(truth: TruthServer, model: Model) -> None:
    source = fresh()
    before = counters(truth)
    seen = run(truth.base_url, plan_of(model), source)
    after = counters(truth)

    assert list(seen.phases) == ["prime", "ramp", "steady", "drain", "done"]
    assert seen.phases["steady"] - seen.phases["ramp"] == pytest.approx(RAMP_S)
    assert seen.phases["drain"] - seen.phases["steady"] == pytest.approx(STEADY_S)
    assert seen.phases["prime"] < seen.phases["ramp"]
    assert seen.phases["drain"] <= seen.phases["done"]

    assert {record.outcome for record in seen.records} == {Outcome.OK}
    assert sorted(record.request for record in seen.records) == list(range(len(seen.records)))
    tags = [tag_of(source, record) for record in seen.records]
    truths = {entry["tag"]: entry for entry in truth.truth() if entry["tag"].startswith(f"{source.point}/")}
    assert sorted(tags) == sorted(truths)
    assert after["prompt_tokens_total"] - before["prompt_tokens_total"] == 50 * len(tags)
    assert after["generation_tokens_total"] - before["generation_tokens_total"] == 4 * len(tags)
    assert after["request_success_total"] - before["request_success_total"] == len(tags)

    assert len(seen.window) > 5
    for record in seen.load:
        assert seen.phases["ramp"] <= record.intended_s < seen.phases["drain"]
        assert record.sent_s is not None
        assert record.intended_s <= record.sent_s
        assert (record.point, record.run) == (2, 1)
        assert record.segments
    assert seen.client is not None
    assert seen.client.generated_late == 0
    assert seen.client.wall_s > 0
    assert seen.client.cpu_s > 0
    assert seen.client.processes == 1
    assert seen.client.send_delay_p99_s is not None


def test_several_tokens_in_a_chunk_are_several_tokens(truth: TruthServer) -> None:
    """As speculative decoding packs them: the time per token comes from usage, never from chunks."""
    source = fresh(output_tokens=100, behaviour={"chunk_tokens": [3], "gap_s": 0.001})
    seen = run(truth.base_url, plan_of(Closed(count=2)), source)
    for record in seen.load:
        assert (len(record.chunk_s), record.completion_tokens) == (34, 100)
        assert record.tpot_s == pytest.approx((record.chunk_s[-1] - record.chunk_s[0]) / 99)


def test_priming_comes_first_one_by_one_and_never_into_the_window(truth: TruthServer) -> None:
    source = fresh(agents=("router", "booking", "closing"))
    seen = run(truth.base_url, plan_of(STREAMS), source)
    primed = [record for record in seen.records if record.primed]
    assert [record.agent for record in primed] == ["router", "booking", "closing"]
    assert {record.stream for record in primed} == {-1}
    for first, second in pairwise(primed):
        assert first.done_s <= second.intended_s
    assert primed[-1].done_s <= seen.phases["ramp"]
    assert not any(record.primed for record in seen.window)


def test_the_gap_runs_from_the_end_of_a_reply_to_the_next_intended_time(truth: TruthServer) -> None:
    plan = plan_of(STREAMS)
    seen = run(truth.base_url, plan, fresh())
    assert set(seen.by_stream()) == set(range(6))
    for stream, records in seen.by_stream().items():
        assert records[0].intended_s == pytest.approx(seen.phases["ramp"] + opening(stream, 6, RAMP_S))
        silences = islice(gaps(GAP, seed=7, stream=stream), len(records) - 1)
        for (earlier, later), gap in zip(pairwise(records), silences, strict=True):
            assert later.intended_s == earlier.done_s + gap


def test_a_failed_turn_is_recorded_and_the_stream_goes_on(truth: TruthServer) -> None:
    faults = {
        "0/0/0": {"status": 503},
        "1/0/0": {"fault": "cut", "fault_after": 1},
        "2/0/0": {"fault": "error_event"},
        "3/0/1": {"fault": "no_response"},
    }
    often = Streams(count=6, gap=TurnGap(distribution="fixed", mean_s=0.05))
    seen = run(truth.base_url, plan_of(often, steady_s=1.0), fresh(by_turn=faults))
    failed = {
        (record.stream, record.conversation, record.turn): record.outcome
        for record in seen.load
        if record.outcome is not Outcome.OK
    }
    assert failed == {
        (0, 0, 0): Outcome.HTTP_ERROR,
        (1, 0, 0): Outcome.CUT,
        (2, 0, 0): Outcome.ENGINE_ERROR,
        (3, 0, 1): Outcome.CUT,
    }
    for stream, _, _ in failed:
        assert len(seen.by_stream()[stream]) > 2


def test_what_is_open_when_the_drain_ends_is_a_timeout(truth: TruthServer) -> None:
    hang = {"4/0/0": {"fault": "hang", "fault_after": 1}}
    seen = run(truth.base_url, plan_of(STREAMS, drain_s=0.2), fresh(by_turn=hang))
    (late,) = (record for record in seen.load if record.outcome is not Outcome.OK)
    assert (late.stream, late.outcome) == (4, Outcome.TIMEOUT)
    assert late.error == "still open 0.2 s after the window, when the drain ended"
    assert late.first_token_s is not None
    assert seen.phases["done"] >= seen.phases["drain"] + 0.2


def test_a_request_of_the_window_may_end_in_the_drain(truth: TruthServer) -> None:
    slow = fresh(behaviour={"ttft_s": 0.3})
    seen = run(truth.base_url, plan_of(Closed(count=4)), slow)
    assert any(record.done_s >= seen.phases["drain"] for record in seen.window)
    assert seen.outcomes() == {Outcome.OK}


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
    source = _Unprimed(point=next(_points), behaviour={"fault": "hang", "fault_after": 1})
    seen = run(truth.base_url, plan_of(model, drain_s=0.05), source)
    expected = list(arrival_times(model, seed=7, ramp_s=RAMP_S, length_s=RAMP_S + STEADY_S))
    assert [record.intended_s - seen.phases["ramp"] for record in seen.load] == pytest.approx(expected)
    assert [record.stream for record in seen.load] == [number % 3 for number in range(len(expected))]
    assert seen.outcomes() == {Outcome.TIMEOUT}


def test_latency_counts_from_the_intended_time_when_the_turn_was_not_ready(truth: TruthServer) -> None:
    """Queueing in the client is latency: the trap of clients that start their watch when a slot is free."""
    ended = threading.Event()
    made: list[float] = []

    class Slow(TruthSource):
        """Makes its third call only after the last turn of the second has been answered."""

        def calls(self, stream: int) -> Iterator[Sequence[Turn]]:
            for number, call in enumerate(super().calls(stream)):
                if number == 2:
                    ended.wait()
                    made.append(time.monotonic())
                yield call

    seen = run(
        truth.base_url,
        plan_of(Closed(count=1, fastest_reply_s=1e9)),
        Slow(point=next(_points), turns=2),
        also=lambda record: ended.set() if (record.conversation, record.turn) == (1, 1) else None,
    )
    waited = next(record for record in seen.load if record.conversation == 2)
    last = next(record for record in seen.load if (record.conversation, record.turn) == (1, 1))
    assert waited.intended_s == last.done_s
    assert waited.sent_s is not None
    assert waited.intended_s < made[0] - seen.clock.epoch <= waited.sent_s
    assert waited.e2e_s == waited.done_s - last.done_s
    assert waited.ttft_s == (waited.first_token_s or 0.0) - last.done_s
    assert seen.client is not None
    assert seen.client.generated_late > 0


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


def test_stop_records_what_is_open_as_cancelled_and_returns(truth: TruthServer) -> None:
    hang = {f"{stream}/0/0": {"fault": "hang", "fault_after": 1} for stream in range(3)}
    source = fresh(by_turn=hang)
    seen = run(
        truth.base_url,
        plan_of(STREAMS, steady_s=30.0),
        source,
        stop_if=lambda record: record.stream == 5,
    )
    cancelled = [record for record in seen.load if record.outcome is Outcome.CANCELLED]
    assert {record.stream for record in cancelled} >= {0, 1, 2}
    assert {record.error for record in cancelled} == {"the run was stopped"}
    assert "done" not in seen.phases
    assert seen.client is None
    ended = [entry for entry in truth.truth() if entry["tag"].startswith(f"{source.point}/")]
    assert len(ended) == len(seen.records)


def test_requests_leave_nothing_to_the_garbage_collector(truth: TruthServer) -> None:
    """It does not look at what has become old while a point is measured: bodies kept by cycles would pile up."""
    faults = {
        "0/0/0": {"status": 503},
        "1/0/0": {"fault": "cut"},
        "2/0/0": {"fault": "close"},
        "3/0/0": {"fault": "hang"},
    }
    left: list[object] = []

    def count(record: RequestRecord) -> None:
        if record.stream == 5 and record.turn == 2:
            left.append(sum(isinstance(found, Call) for found in gc.get_objects()))

    gc.collect()
    gc.disable()
    try:
        seen = run(truth.base_url, plan_of(STREAMS, drain_s=0.1), fresh(by_turn=faults), also=count)
        calls = [found for found in gc.get_objects() if isinstance(found, Call)]
    finally:
        gc.enable()
    assert len(seen.load) > 20
    assert calls == []
    assert left
    assert all(isinstance(found, int) and found <= 6 for found in left)  # those that are open


def test_stop_before_the_first_request(truth: TruthServer) -> None:
    async def main() -> list[RequestRecord]:
        records: list[RequestRecord] = []
        clock = RunClock.start()
        stop = asyncio.Event()
        stop.set()
        async with Client(truth.base_url, clock=clock, request_timeout_s=1) as client:
            await run_point(plan_of(STREAMS), TruthSource(), client, clock, records.append, lambda _: None, stop)
        return records

    assert asyncio.run(main()) == []


def test_a_run_that_is_cancelled_from_outside_records_what_is_open(truth: TruthServer) -> None:
    async def main() -> list[RequestRecord]:
        records: list[RequestRecord] = []
        clock = RunClock.start()
        ramp = asyncio.Event()

        def on_phase(observed: PhaseStarted | ClientSelf) -> None:
            if isinstance(observed, PhaseStarted) and observed.phase == "steady":
                ramp.set()

        async with Client(truth.base_url, clock=clock, request_timeout_s=20) as client:
            plan = plan_of(STREAMS)
            unprimed = _Unprimed(point=next(_points), behaviour={"fault": "hang", "fault_after": 1})
            point = asyncio.ensure_future(
                run_point(plan, unprimed, client, clock, records.append, on_phase, asyncio.Event())
            )
            await ramp.wait()
            point.cancel()
            with pytest.raises(asyncio.CancelledError):
                await point
        return records

    records = asyncio.run(main())
    assert len(records) == 6
    assert {record.outcome for record in records} == {Outcome.CANCELLED}


class _Unprimed(TruthSource):
    def primes(self) -> Sequence[Turn]:
        return []


@pytest.mark.parametrize("model", [STREAMS, Open(rate=40.0, arrivals="fixed", callers=3)], ids=["streams", "open"])
def test_a_record_that_cannot_be_kept_ends_the_point_with_its_own_error(truth: TruthServer, model: Model) -> None:
    full = StreamproofError("the disk is full", remedy="Free some.")
    seen = Seen()

    def also(record: RequestRecord) -> None:
        if not record.primed and len(seen.records) > 5:
            raise full

    with pytest.raises(StreamproofError) as caught:
        run(truth.base_url, plan_of(model, steady_s=30.0), fresh(), also=also, seen=seen)
    assert caught.value is full
    assert len(seen.records) == 6  # it was asked once more than it could, and never again


def test_a_record_that_cannot_be_kept_when_the_run_is_stopped(truth: TruthServer) -> None:
    full = StreamproofError("the disk is full", remedy="Free some.")

    def also(record: RequestRecord) -> None:
        if record.outcome is Outcome.CANCELLED:
            raise full

    hang = fresh(by_turn={f"{stream}/0/0": {"fault": "hang"} for stream in range(5)})
    with pytest.raises(StreamproofError) as caught:
        run(
            truth.base_url,
            plan_of(STREAMS, steady_s=30.0),
            hang,
            also=also,
            stop_if=lambda record: record.stream == 5,
        )
    assert caught.value is full


@pytest.mark.parametrize(
    ("behaviour", "message", "code"),
    [
        ({"fault": "html"}, "failed: the reply is 'text/html", Exit.USAGE),
        ({"status": 404}, "failed: 404", Exit.USAGE),
        ({"status": 401}, "failed: 401", Exit.USAGE),
        ({"status": 400}, "failed: 400", Exit.FAILURE),
        ({"usage": "absent"}, "failed: no usage", Exit.FAILURE),
    ],
    ids=str,
)
def test_a_first_reply_that_shows_that_none_will_count_ends_the_point(
    truth: TruthServer, behaviour: dict[str, Any], message: str, code: Exit
) -> None:
    seen = Seen()
    with pytest.raises(StreamproofError, match=message) as caught:
        run(truth.base_url, plan_of(STREAMS), TruthSource(behaviour=behaviour), seen=seen)
    assert caught.value.exit_code is code
    assert caught.value.remedy
    assert "\n" not in caught.value.message
    assert [record.primed for record in seen.records] == [True]  # and it is kept


def test_a_first_reply_that_may_be_bad_luck_does_not(truth: TruthServer) -> None:
    source = fresh(by_turn={"prime/router": {"status": 503}, "prime/booking": {"status": 429}})
    seen = run(truth.base_url, plan_of(STREAMS), source)
    assert [record.outcome for record in seen.records if record.primed] == [Outcome.HTTP_ERROR] * 2
    assert seen.outcomes() == {Outcome.OK}


def test_a_server_that_dies_in_the_middle_leaves_failures_and_an_end() -> None:
    with running() as server:

        def kill(record: RequestRecord) -> None:
            if not record.primed:
                server.process.kill()

        seen = run(server.base_url, plan_of(STREAMS), TruthSource(), also=kill)
        server.process.wait()
    assert seen.outcomes() >= {Outcome.OK, Outcome.CONNECT}
    assert seen.outcomes() <= {Outcome.OK, Outcome.CONNECT, Outcome.CUT}
    assert "done" in seen.phases


def test_shards_share_the_streams_and_the_numbers(truth: TruthServer) -> None:
    parts = [run(truth.base_url, plan_of(STREAMS, shard=Shard(index=index, of=2)), fresh()) for index in range(2)]
    assert [set(part.by_stream()) for part in parts] == [{0, 2, 4}, {1, 3, 5}]
    for index, part in enumerate(parts):
        assert {record.request % 2 for record in part.records} == {index}
        for stream, records in part.by_stream().items():
            assert records[0].intended_s == pytest.approx(part.phases["ramp"] + opening(stream, 6, RAMP_S))
