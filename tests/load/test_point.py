"""The course of a point: its phases, its records, and that they are the server's own."""

from __future__ import annotations

import gc
import threading
import time
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from bench.load.connection import Call
from bench.load.gaps import opening
from bench.load.plan import Closed, Model, Open, Shard, Streams
from bench.records import Outcome, RequestRecord
from recipes.schema import TurnGap
from tests.load.one_point import RAMP_S, STEADY_S, STREAMS, fresh, next_point, plan_of, run, tag_of
from tests.truth.workload import TruthSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.workload.turn import Turn
    from tests.truth.process import TruthServer

pytestmark = pytest.mark.alone

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
        Slow(point=next_point(), turns=2),
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


def test_shards_share_the_streams_and_the_numbers(truth: TruthServer) -> None:
    parts = [run(truth.base_url, plan_of(STREAMS, shard=Shard(index=index, of=2)), fresh()) for index in range(2)]
    assert [set(part.by_stream()) for part in parts] == [{0, 2, 4}, {1, 3, 5}]
    for index, part in enumerate(parts):
        assert {record.request % 2 for record in part.records} == {index}
        for stream, records in part.by_stream().items():
            assert records[0].intended_s == pytest.approx(part.phases["ramp"] + opening(stream, 6, RAMP_S))
