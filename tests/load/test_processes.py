from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from bench.engine.cores import confined, split
from bench.errors import StreamproofError, UsageError
from bench.load.clock import RunClock
from bench.load.plan import BargeIn, Closed, Model, Open, PointPlan, Replay, Streams
from bench.load.processes import processes_for, run_point_on
from bench.load.target import Target
from bench.load.trace import TraceLine
from bench.observe.observations import ClientSelf, PhaseStarted
from bench.records import Outcome, RequestRecord
from bench.servers import Server
from recipes.schema import TurnGap
from tests.signal_masks import blocks_ctrl_c
from tests.truth.workload import TruthSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.truth.process import TruthServer

STREAMS = Streams(count=6, gap=TurnGap(distribution="exponential", mean_s=0.05))


def plan_of(model: Model = STREAMS, *, steady_s: float = 0.4) -> PointPlan:
    return PointPlan(
        point=1,
        run=0,
        seed=7,
        model=model,
        ramp_s=0.2,
        steady_s=steady_s,
        drain_s=10.0,
        request_timeout_s=20.0,
    )


@dataclass
class Seen:
    records: list[RequestRecord] = field(default_factory=list)
    observed: list[PhaseStarted | ClientSelf] = field(default_factory=list)


def run(
    base_url: str,
    source: Callable[[], TruthSource],
    *,
    steady_s: float = 0.4,
    also: Callable[[RequestRecord, asyncio.Event], None] = lambda *_: None,
    seen: Seen | None = None,
) -> Seen:
    seen = Seen() if seen is None else seen

    async def main() -> None:
        stop = asyncio.Event()

        def on_record(record: RequestRecord) -> None:
            seen.records.append(record)
            also(record, stop)

        target = Target(servers=(Server(base_url, "sk-xyz"),), request_timeout_s=20.0)
        assert "sk-xyz" not in repr(target)
        await run_point_on(
            2, plan_of(steady_s=steady_s), source, target, RunClock.start(), on_record, seen.observed.append, stop
        )

    asyncio.run(main())
    assert not [child for child in psutil.Process().children() if "spawn_main" in " ".join(child.cmdline())]
    return seen


def test_two_processes_are_one_point(truth: TruthServer) -> None:
    before = truth.counter("vllm:generation_tokens_total")
    seen = run(truth.base_url, partial(TruthSource, point=9001))
    assert [entry.phase for entry in seen.observed if isinstance(entry, PhaseStarted)] == [
        "prime",
        "ramp",
        "steady",
        "drain",
        "done",
    ]
    (client,) = (entry for entry in seen.observed if isinstance(entry, ClientSelf))
    assert client.processes == 2
    assert client.send_delay_p99_s is not None
    assert {record.outcome for record in seen.records} == {Outcome.OK}
    assert len({record.request for record in seen.records}) == len(seen.records)
    assert sum(record.primed for record in seen.records) == 2  # once, not once a process
    load = [record for record in seen.records if not record.primed]
    assert {record.stream for record in load} == set(range(6))
    ramp = next(entry.t for entry in seen.observed if isinstance(entry, PhaseStarted) and entry.phase == "ramp")
    for stream in range(6):
        first = min(record.intended_s for record in load if record.stream == stream)
        assert first == pytest.approx(ramp + 0.2 * stream / 6)
    assert truth.counter("vllm:generation_tokens_total") - before == 4 * len(seen.records)


def test_stop_brings_every_open_request_home_as_cancelled(truth: TruthServer) -> None:
    hang = {f"{stream}/0/0": {"fault": "hang", "fault_after": 1} for stream in range(5)}

    def also(record: RequestRecord, stop: asyncio.Event) -> None:
        if record.stream == 5:
            stop.set()

    seen = run(truth.base_url, partial(TruthSource, point=9002, by_turn=hang), steady_s=30.0, also=also)
    cancelled = {record.stream for record in seen.records if record.outcome is Outcome.CANCELLED}
    assert cancelled >= {0, 1, 2, 3, 4}
    assert "done" not in {getattr(entry, "phase", "") for entry in seen.observed}


def test_what_one_process_finds_out_is_raised_here(truth: TruthServer) -> None:
    seen = Seen()
    with pytest.raises(UsageError, match="failed: the reply is 'text/html") as caught:
        run(truth.base_url, partial(TruthSource, behaviour={"fault": "html"}), seen=seen)
    assert caught.value.remedy
    assert [record.outcome for record in seen.records] == [Outcome.BAD_REPLY]


def test_a_record_that_cannot_be_kept_ends_it(truth: TruthServer) -> None:
    full = StreamproofError("the disk is full", remedy="Free some.")

    def also(record: RequestRecord, _: asyncio.Event) -> None:
        if not record.primed:
            raise full

    seen = Seen()
    with pytest.raises(StreamproofError) as caught:
        run(truth.base_url, partial(TruthSource, point=9003), steady_s=30.0, also=also, seen=seen)
    assert caught.value is full
    assert len([record for record in seen.records if not record.primed]) <= 2  # one a process at most


def test_a_process_that_is_killed_is_missed(truth: TruthServer) -> None:
    killed: list[int] = []

    def also(record: RequestRecord, _: asyncio.Event) -> None:
        if not record.primed and not killed:
            victim = next(child for child in psutil.Process().children() if "spawn_main" in " ".join(child.cmdline()))
            killed.append(victim.pid)
            os.kill(victim.pid, signal.SIGKILL)

    with pytest.raises(StreamproofError, match=r"client process [12] of 2 ended before its work"):
        run(truth.base_url, partial(TruthSource, point=9004), steady_s=30.0, also=also)
    assert killed


GAP = TurnGap(distribution="exponential", mean_s=50.0)


@pytest.mark.parametrize(
    ("model", "cores", "processes"),
    [
        (Streams(count=60, gap=GAP), 2, 1),
        (Streams(count=10_000, gap=GAP), 2, 1),
        (Streams(count=10_000, gap=GAP), 8, 2),
        (BargeIn(streams=Streams(count=50_000, gap=GAP), share=0.1, after_s=(0.0, 1.0)), 4, 3),
        (Closed(count=16), 8, 1),
        (Closed(count=300), 8, 4),
        (Open(rate=301.0, arrivals="poisson", callers=1), 8, 3),
        (Open(rate=301.0, arrivals="poisson", callers=1), 1, 1),
    ],
)
def test_as_many_processes_as_it_needs(model: Model, cores: int, processes: int) -> None:
    assert processes_for(plan_of(model), cores) == processes


@pytest.mark.parametrize(("lines", "processes"), [(1, 1), (3000, 1), (3002, 2)])
def test_a_trace_takes_as_many_as_its_rate_needs(lines: int, processes: int) -> None:
    trace = tuple(TraceLine(time=20.0 * n / max(1, lines - 1), agent="booking", tokens=9) for n in range(lines))
    assert processes_for(plan_of(Replay(trace=Path("trace.jsonl"), lines=trace)), 8) == processes


def test_ctrl_c_never_reaches_a_client_process_not_even_while_python_loads(truth: TruthServer) -> None:
    """Else Python prints a traceback of it, and it ends before its parent says so."""
    blocked: list[bool] = []

    def also(_: RequestRecord, stop: asyncio.Event) -> None:
        if not blocked:
            spawned = [child for child in psutil.Process().children() if "spawn_main" in " ".join(child.cmdline())]
            blocked.extend(blocks_ctrl_c(child.pid) for child in spawned)
            stop.set()

    run(truth.base_url, partial(TruthSource, point=9006), steady_s=30.0, also=also)
    assert blocked == [True, True]


def test_client_processes_keep_to_the_cores_of_their_client(truth: TruthServer) -> None:
    here = os.sched_getaffinity(0)
    _, cores = split(here)
    found: list[set[int]] = []

    def also(_: RequestRecord, stop: asyncio.Event) -> None:
        if not found:
            spawned = [child for child in psutil.Process().children() if "spawn_main" in " ".join(child.cmdline())]
            found.extend(os.sched_getaffinity(child.pid) for child in spawned)
            stop.set()

    with confined(cores):
        run(truth.base_url, partial(TruthSource, point=9005), steady_s=30.0, also=also)
    assert found == [cores, cores]
    assert os.sched_getaffinity(0) == here
