"""A point that ends before its time: stopped, cancelled, refused, out of disk, left alone by its server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from bench.errors import Exit, StreamproofError
from bench.load.clock import RunClock
from bench.load.http import Client
from bench.load.plan import Model, Open
from bench.load.point import run_point
from bench.observe.observations import ClientSelf, PhaseStarted
from bench.records import Outcome, RequestRecord
from tests.load.one_point import STREAMS, Seen, Unprimed, fresh, next_point, plan_of, run
from tests.truth.process import running
from tests.truth.workload import TruthSource

if TYPE_CHECKING:
    from tests.truth.process import TruthServer


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
            unprimed = Unprimed(point=next_point(), behaviour={"fault": "hang", "fault_after": 1})
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
