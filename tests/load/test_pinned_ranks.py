"""Streams keep to their rank or replica, and each of them is primed: as the client sends it."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from bench.affinity import rank_of
from bench.load.clock import RunClock
from bench.load.connection import Call
from bench.load.http import Client
from bench.load.plan import Closed, Model, Open, PointPlan, Streams
from bench.load.point import run_point
from bench.load.target import Clients, Target
from bench.observe.observations import ClientSelf
from bench.records import RequestRecord
from bench.servers import Server
from recipes.schema import TurnGap
from tests.truth.process import running
from tests.truth.workload import TruthSource, turn

if TYPE_CHECKING:
    from pathlib import Path

    from bench.workload.turn import Turn
    from tests.truth.process import TruthServer

GAP = TurnGap(distribution="fixed", mean_s=0.05)


class Watched(Client):
    """Remembers the rank that each turn was sent to."""

    def __init__(self, url: str, clock: RunClock) -> None:
        super().__init__(url, clock=clock, request_timeout_s=20.0)
        self.sent: dict[bytes, set[int | None]] = defaultdict(set)

    def send(self, turn: Turn, intended_s: float, on_end: Any, *, rank: int | None = None, **more: Any) -> Call:
        self.sent[turn.body].add(rank)
        return super().send(turn, intended_s, on_end, rank=rank, **more)


def run(url: str, model: Model, ranks: int) -> tuple[Watched, list[RequestRecord], TruthSource]:
    plan = PointPlan(
        point=0,
        run=0,
        seed=7,
        model=model,
        ramp_s=0.1,
        steady_s=0.3,
        drain_s=10.0,
        request_timeout_s=20.0,
        ranks=ranks,
    )
    records: list[RequestRecord] = []
    source = TruthSource()

    async def main() -> Watched:
        clock = RunClock.start()
        async with Watched(url, clock) as client:
            await run_point(plan, source, client, clock, records.append, lambda _: None, asyncio.Event())
        return client

    return asyncio.run(main()), records, source


@pytest.mark.parametrize(
    "model",
    [Streams(count=5, gap=GAP), Closed(count=3), Open(rate=40.0, arrivals="fixed", callers=4)],
    ids=["streams", "closed", "open"],
)
def test_a_stream_keeps_to_its_rank_and_every_rank_is_primed(truth: TruthServer, model: Model) -> None:
    client, records, source = run(truth.base_url, model, ranks=2)
    primes = source.primes()
    assert all(client.sent[prime.body] == {0, 1} for prime in primes)
    primed = [record.stream for record in records if record.primed]
    assert primed == [-1] * len(primes) + [-2] * len(primes)
    by_stream: dict[int, set[int | None]] = {}
    for record in records:
        if not record.primed:
            turns = [one for call in _calls(source, record) for one in call]
            (body,) = {one.body for one in turns if (one.conversation, one.turn) == (record.conversation, record.turn)}
            by_stream.setdefault(record.stream, set()).update(client.sent[body])
    assert len(by_stream) > 1
    assert by_stream == {stream: {stream % 2} for stream in by_stream}


def _calls(source: TruthSource, record: RequestRecord) -> list[Any]:
    calls = source.calls(record.stream)
    return [next(calls) for _ in range(record.conversation + 1)]


def test_without_ranks_nothing_is_asked_for(truth: TruthServer) -> None:
    client, records, _ = run(truth.base_url, Streams(count=3, gap=GAP), ranks=1)
    assert set().union(*client.sent.values()) == {None}
    assert {record.stream for record in records if record.primed} == {-1}


def test_the_header_names_the_rank() -> None:
    heads: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        clock = RunClock.start()
        async with server, Client(f"http://127.0.0.1:{port}", clock=clock, request_timeout_s=5.0) as client:
            for rank in (None, 0, 1):
                await client.exchange(turn("any"), clock.now(), rank=rank)

    asyncio.run(main())
    named = [[line for line in head.split(b"\r\n") if b"rank" in line] for head in heads]
    assert named == [[], [b"x-data-parallel-rank: 0"], [b"x-data-parallel-rank: 1"]]


def test_a_stream_keeps_to_its_replica_and_each_replica_is_primed(tmp_path: Path) -> None:
    plan = PointPlan(
        point=0,
        run=0,
        seed=7,
        model=Streams(count=5, gap=GAP),
        ramp_s=0.1,
        steady_s=0.3,
        drain_s=10.0,
        request_timeout_s=20.0,
        ranks=2,
    )
    records: list[RequestRecord] = []
    source = TruthSource()

    async def main(*servers: Server) -> None:
        clock = RunClock.start()
        async with Clients(Target(servers=servers, request_timeout_s=20.0), clock) as clients:
            await run_point(plan, source, clients, clock, records.append, seen.append, asyncio.Event())

    seen: list[Any] = []
    with running(folder=tmp_path) as one, running(folder=tmp_path) as two:
        asyncio.run(main(Server(one.base_url), Server(two.base_url)))
        answered = [{entry["tag"] for entry in server.truth()} for server in (one, two)]
        assert [len(server.truth()) for server in (one, two)] == [
            sum(rank_of(record.stream, 2) == replica for record in records) for replica in (0, 1)
        ]
    primes = {json.loads(prime.body)["truth"]["tag"] for prime in source.primes()}
    assert answered[0] & answered[1] == primes
    (client,) = (each for each in seen if isinstance(each, ClientSelf))
    assert client.stamp_delay_p99_s is not None  # arrivals of both are certified together


def test_a_rank_of_a_replica_is_named_where_it_is_served() -> None:
    heads: dict[int, list[bytes]] = {0: [], 1: []}

    async def main() -> None:
        def server(number: int) -> Any:
            async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                heads[number].append(await reader.readuntil(b"\r\n\r\n"))
                writer.close()

            return asyncio.start_server(answer, "127.0.0.1", 0)

        clock = RunClock.start()
        async with await server(0) as zero, await server(1) as one:
            urls = [f"http://127.0.0.1:{each.sockets[0].getsockname()[1]}" for each in (zero, one)]
            target = Target(servers=(Server(urls[0], "a"), Server(urls[1], "b")), ranks_each=2, request_timeout_s=5.0)
            async with Clients(target, clock) as clients:
                for rank in range(4):
                    await clients.exchange(turn("any"), clock.now(), rank=rank)

    asyncio.run(main())
    named = {
        number: [[line for line in head.split(b"\r\n") if b"rank" in line or b"Bearer" in line] for head in found]
        for number, found in heads.items()
    }
    assert named == {
        number: [[b"authorization: Bearer " + key, b"x-data-parallel-rank: %d" % own] for own in (0, 1)]
        for number, key in ((0, b"a"), (1, b"b"))
    }
    assert "secret" not in repr(Server("http://x", "secret"))
