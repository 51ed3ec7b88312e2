from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from bench.errors import UsageError
from bench.load.plan import PointPlan, Replay, Shard
from bench.load.replay import ReplayLoad
from bench.load.stock import Stock
from bench.load.trace import read_trace
from tests.truth.workload import turn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from bench.workload.turn import Turn

pytestmark = pytest.mark.alone


@dataclass
class Lengths:
    """Calls of two turns, one for each agent; their lengths come from a list, over and over."""

    tokens: tuple[int, ...]

    def primes(self) -> Sequence[Turn]:
        return []

    def calls(self, stream: int) -> Iterator[Sequence[Turn]]:
        conversation = 0
        while True:
            tokens = self.tokens[conversation % len(self.tokens)]
            yield [
                turn(f"{stream}/{conversation}/{agent}", agent=agent, conversation=conversation, prompt_tokens=tokens)
                for agent in ("booking", "router")
            ]
            conversation += 1


def chosen(trace: Path, lines: str, tokens: tuple[int, ...], **plan: Any) -> list[tuple[float, int, Turn]]:
    trace.write_text(lines)
    model = Replay(trace=trace, lines=tuple(read_trace(trace)), callers=2)
    load = ReplayLoad(model)
    shard = plan.pop("shard", Shard())

    async def main() -> None:
        with Stock(Lengths(tokens)) as stock:
            whole = PointPlan(
                point=0,
                run=0,
                seed=1,
                model=model,
                ramp_s=1.0,
                steady_s=9.0,
                drain_s=1.0,
                request_timeout_s=1.0,
                shard=shard,
            )
            await load.prepare(whole, stock)

    asyncio.run(main())
    return load._turns


def line(time: float, agent: str, tokens: int) -> str:
    return f'{{"time": {time}, "agent": "{agent}", "tokens": {tokens}}}\n'


def test_each_line_gets_a_turn_of_its_agent_of_about_its_length_and_none_twice(tmp_path: Path) -> None:
    lines = "".join(line(float(n), ("booking", "router")[n % 2], 100 + 50 * (n % 3)) for n in range(9))
    turns = chosen(tmp_path / "trace.jsonl", lines, (100, 152, 196))
    assert [(at, turn.agent) for at, _, turn in turns] == [(float(n), ("booking", "router")[n % 2]) for n in range(9)]
    assert [turn.prompt_tokens for _, _, turn in turns] == [(100, 152, 196)[n % 3] for n in range(9)]
    assert len({(stream, turn.conversation, turn.agent) for _, stream, turn in turns}) == 9


def test_the_trace_is_cut_where_the_window_ends(tmp_path: Path) -> None:
    lines = line(0, "booking", 100) + line(9.9, "booking", 100) + line(10.0, "booking", 100)
    assert [at for at, _, _ in chosen(tmp_path / "trace.jsonl", lines, (100,))] == [0.0, 9.9]


def test_shards_share_the_lines(tmp_path: Path) -> None:
    lines = "".join(line(n / 10, "booking", 100) for n in range(5))
    parts = [chosen(tmp_path / "trace.jsonl", lines, (100,), shard=Shard(index=index, of=2)) for index in range(2)]
    assert [[at for at, _, _ in part] for part in parts] == [[0.0, 0.2, 0.4], [0.1, 0.3]]
    assert {stream % 2 for _, stream, _ in parts[0]} == {0}
    assert {stream % 2 for _, stream, _ in parts[1]} == {1}


@pytest.mark.parametrize(
    ("bad", "message", "remedy"),
    [
        (line(1, "closing", 100), "the workload has no turn of the agent 'closing'", "booking, router"),
        (line(1, "booking", 500), "a prompt of 500 tokens for 'booking'; .* has 100", "workload.prompt_tokens"),
        (line(1, "booking", 80), "a prompt of 80 tokens for 'booking'; .* has 100", "workload.prompt_tokens"),
    ],
)
def test_a_line_that_the_workload_has_no_turn_for_is_named(tmp_path: Path, bad: str, message: str, remedy: str) -> None:
    with pytest.raises(UsageError, match=f"trace.jsonl, line 2: {message}") as caught:
        chosen(tmp_path / "trace.jsonl", line(0, "booking", 100) + bad, (100,))
    assert remedy in caught.value.remedy
