from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from bench.errors import Exit, UsageError
from bench.load.context import Context
from bench.load.plan import PointPlan, Replay, Shard
from bench.load.replay import ReplayLoad, TraceLine, read_trace
from bench.load.stock import Stock
from tests.truth.workload import turn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from bench.workload.turn import Turn

GOOD = '{"time": 5.0, "agent": "booking", "tokens": 100}\n'


def test_times_count_from_the_first_line(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text(GOOD + '{"time": 7.5, "agent": "router", "tokens": 90}\n')
    assert read_trace(trace) == [
        TraceLine(time=0.0, agent="booking", tokens=100),
        TraceLine(time=2.5, agent="router", tokens=90),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nonsense", "Invalid JSON"),
        ("", "Invalid JSON"),
        ("7", "should be an object|valid dictionary"),
        ('{"time": 6.0, "agent": "booking"}', "tokens: Field required"),
        ('{"time": 6.0, "agent": "booking", "tokens": 0}', "tokens: Input should be greater than 0"),
        ('{"time": 6.0, "agent": "booking", "tokens": "9"}', "tokens: Input should be a valid integer"),
        ('{"time": -1.0, "agent": "booking", "tokens": 9}', "time: Input should be greater than or equal to 0"),
        ('{"time": 6.0, "agent": 4, "tokens": 9}', "agent: Input should be a valid string"),
        ('{"time": 6.0, "agent": "a", "tokens": 9, "x": 1}', "x: Extra inputs are not permitted"),
        ('{"time": 4.0, "agent": "a", "tokens": 9}', "time 4 is before the line above"),
    ],
)
def test_a_bad_line_is_named_by_its_number(tmp_path: Path, line: str, message: str) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text(GOOD * 2 + line + "\n" + GOOD)
    with pytest.raises(UsageError, match=f"trace.jsonl, line 3: .*({message})") as caught:
        read_trace(trace)
    assert caught.value.exit_code is Exit.USAGE
    assert caught.value.remedy
    assert "\n" not in caught.value.message


def test_no_trace(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_trace(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(UsageError, match="is empty"):
        read_trace(tmp_path / "empty.jsonl")


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
    load = ReplayLoad(Replay(trace=trace, callers=2))
    shard = plan.pop("shard", Shard())

    async def main() -> None:
        with Stock(Lengths(tokens)) as stock:
            whole = PointPlan(
                point=0,
                run=0,
                seed=1,
                model=Replay(trace=trace),
                ramp_s=1.0,
                steady_s=9.0,
                drain_s=1.0,
                request_timeout_s=1.0,
                shard=shard,
            )
            await load.prepare(Context(plan=whole, clock=None, alarm=None, stock=stock, sender=None))  # type: ignore[arg-type]

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
