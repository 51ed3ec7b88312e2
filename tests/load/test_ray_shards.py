"""One point over a real Ray cluster of two nodes on this machine."""

from __future__ import annotations

import asyncio
import os
import platform
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import psutil
import pytest

from bench.errors import StreamproofError, UsageError
from bench.load.clock import RunClock
from bench.load.plan import PointPlan, Streams
from bench.load.ray_shards import _places, _refuse_unreachable, run_point_on_ray
from bench.load.target import Target
from bench.observe.observations import ClientSelf, PhaseStarted, ShardClock
from bench.records import Outcome, RequestRecord
from bench.servers import Server
from recipes.schema import TurnGap
from tests.truth.workload import TruthSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.truth.process import TruthServer

STREAMS = Streams(count=6, gap=TurnGap(distribution="exponential", mean_s=0.05))


def plan_of(*, steady_s: float = 0.4) -> PointPlan:
    return PointPlan(
        point=1, run=0, seed=7, model=STREAMS, ramp_s=0.2, steady_s=steady_s, drain_s=10.0, request_timeout_s=20.0
    )


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    os.environ["RAY_ENABLE_UV_RUN_RUNTIME_ENV"] = "0"
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    node = {"num_cpus": 1, "object_store_memory": 80 << 20}
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    try:
        cluster.add_node(**node)
        cluster.wait_for_nodes()
        yield cluster.address
        assert clients() == []
    finally:
        cluster.shutdown()
    running = [child for child in psutil.Process().children(recursive=True) if child.status() != psutil.STATUS_ZOMBIE]
    assert not [child.name() for child in running if "ray" in child.name() or "gcs" in child.name()]


@dataclass
class Seen:
    records: list[RequestRecord] = field(default_factory=list)
    observed: list[PhaseStarted | ClientSelf | ShardClock] = field(default_factory=list)

    def phase(self, name: str) -> float:
        return next(entry.t for entry in self.observed if isinstance(entry, PhaseStarted) and entry.phase == name)


def run(
    address: str,
    base_url: str,
    source: Callable[[], TruthSource],
    *,
    processes: int = 0,
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

        await run_point_on_ray(
            address,
            processes,
            plan_of(steady_s=steady_s),
            source,
            Target(servers=(Server(base_url),), request_timeout_s=20.0),
            RunClock.start(),
            on_record,
            seen.observed.append,
            stop,
        )

    asyncio.run(main())
    return seen


def test_two_hosts_are_one_point(truth: TruthServer, address: str) -> None:
    before = truth.counter("vllm:generation_tokens_total")
    seen = run(address, truth.base_url, partial(TruthSource, point=9301))
    assert {record.outcome for record in seen.records} == {Outcome.OK}
    assert truth.counter("vllm:generation_tokens_total") - before == 4 * len(seen.records)
    assert len({record.request for record in seen.records}) == len(seen.records)
    assert sum(record.primed for record in seen.records) == 2
    load = [record for record in seen.records if not record.primed]
    assert {record.stream for record in load} == set(range(6))
    for stream in range(6):
        first = min(record.intended_s for record in load if record.stream == stream)
        assert first == pytest.approx(seen.phase("ramp") + 0.2 * stream / 6)
    (client,) = (entry for entry in seen.observed if isinstance(entry, ClientSelf))
    assert client.processes == 2
    clocks = [entry for entry in seen.observed if isinstance(entry, ShardClock)]
    assert [clock.shard for clock in clocks] == [0, 1]
    for clock in clocks:  # both nodes are on this machine: the truth is 0
        assert abs(clock.offset_s) <= clock.uncertainty_s


def test_stop_brings_every_open_request_home_and_leaves_nothing_running(truth: TruthServer, address: str) -> None:
    hang = {f"{stream}/0/0": {"fault": "hang", "fault_after": 1} for stream in range(5)}

    def also(record: RequestRecord, stop: asyncio.Event) -> None:
        if record.stream == 5:
            stop.set()

    seen = run(address, truth.base_url, partial(TruthSource, point=9302, by_turn=hang), steady_s=30.0, also=also)
    cancelled = {record.stream for record in seen.records if record.outcome is Outcome.CANCELLED}
    assert cancelled >= {0, 1, 2, 3, 4}
    assert "done" not in {getattr(entry, "phase", "") for entry in seen.observed}
    assert clients() == []


def clients() -> list[psutil.Process]:
    """Client processes of shards: the nodes of the cluster are children of ours, and these are children of theirs."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it has just ended
            if "spawn_main" in " ".join(child.cmdline()):
                found.append(child)
    return found


def test_a_host_that_is_lost_is_missed(truth: TruthServer, address: str) -> None:
    killed: list[int] = []

    def also(record: RequestRecord, _: asyncio.Event) -> None:
        if not record.primed and not killed:
            victim = clients()[0]
            killed.append(victim.pid)
            victim.kill()

    seen = Seen()
    with pytest.raises(StreamproofError, match=r"client [12] of 2 on the Ray cluster ended before its work"):
        run(address, truth.base_url, partial(TruthSource, point=9303), steady_s=30.0, also=also, seen=seen)
    assert killed
    assert seen.records


def test_more_processes_than_the_cluster_has_cpus(truth: TruthServer, address: str) -> None:
    with pytest.raises(StreamproofError, match="has 2 CPUs, and the load needs 3 client processes"):
        run(address, truth.base_url, TruthSource, processes=3)


def test_what_is_no_cluster(truth: TruthServer) -> None:
    with pytest.raises(UsageError, match="'local' is no address"):
        run("local", truth.base_url, TruthSource)


def test_a_cluster_that_does_not_answer(truth: TruthServer) -> None:
    with pytest.raises(UsageError, match=r"no Ray cluster answers at 127\.0\.0\.1:9: .*refused") as caught:
        run("127.0.0.1:9", truth.base_url, TruthSource)
    assert "ray start --head" in caught.value.remedy


def test_ray_is_optional(truth: TruthServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match="Ray is not installed") as caught:
        run("auto", truth.base_url, TruthSource)
    assert "--extra ray" in caught.value.remedy


NODES = [
    {"NodeID": "b", "Resources": {"CPU": 3.0}},
    {"NodeID": "a", "Resources": {"CPU": 1.0}},
    {"NodeID": "d", "Resources": {"GPU": 1.0}},
]


@pytest.mark.parametrize(
    ("processes", "places"), [(0, ["a", "b"]), (1, ["a"]), (3, ["a", "b", "b"]), (4, ["a", "b", "b", "b"])]
)
def test_every_host_takes_part_before_one_takes_part_twice(processes: int, places: list[str]) -> None:
    assert _places(NODES, processes, plan_of()) == places


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000", "http://localhost:8000/v1", "http://[::1]:8000"])
def test_an_address_that_means_another_machine_elsewhere(url: str) -> None:
    with pytest.raises(UsageError, match="means another machine on far-away than here"):
        _refuse_unreachable([Server("http://10.0.0.1:8000"), Server(url)], [platform.node(), "far-away"])
    _refuse_unreachable([Server(url)], [platform.node(), platform.node()])
    _refuse_unreachable([Server("http://10.0.0.1:8000")], ["far-away"])
