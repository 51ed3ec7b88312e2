"""Replay of a recorded trace (`bench.load.trace`).

The texts of the callers are never in a trace: each line is given a turn of the workload of the same agent whose prompt
is about as long.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from bench.errors import UsageError
from bench.load.arrivals import Send, send_at
from bench.load.context import Context, Times
from bench.load.plan import PointPlan, Replay
from bench.load.stock import Stock
from bench.load.trace import TraceLine
from bench.records import RequestRecord
from bench.workload.turn import Turn

TOLERANCE: Final = 0.1
"""How far, as a share, a turn's prompt may be from the length that the trace names."""

CANDIDATES: Final = 2
"""Turns to choose from, per line of the trace: the more, the nearer the lengths, and the longer the preparation."""

MOST_CALLS_PER_LINE: Final = 20
"""An agent that has not spoken in so many calls is not in the workload."""


class ReplayLoad:
    """Sends the trace until the window ends; what comes later in it is left out.

    Raises:
        UsageError: from `prepare`, for a line that the workload has no turn for.
    """

    def __init__(self, model: Replay) -> None:
        self._model = model
        self._turns: list[tuple[float, int, Turn]] = []

    async def prepare(self, plan: PointPlan, stock: Stock) -> None:
        """Choose a turn for every line of this shard."""
        length_s = plan.ramp_s + plan.steady_s
        lines = [(number, self._model.lines[number]) for number in plan.mine(len(self._model.lines))]
        lines = [(number, line) for number, line in lines if line.time < length_s]
        callers = plan.mine(max(self._model.callers, plan.shard.of))
        candidates = await _candidates(stock, callers, Counter(line.agent for _, line in lines), len(lines))
        self._turns = [
            (line.time, stream, turn)
            for (_, line), (stream, turn) in zip(lines, _matched(self._model.trace, lines, candidates), strict=True)
        ]

    async def drive(self, context: Context, times: Times) -> None:
        """Send each line at its time."""

        async def send(stream: int, turn: Turn, intended: float) -> RequestRecord:
            return await context.sender.send(turn, intended, stream=stream)

        def arrivals() -> Iterator[tuple[float, Send]]:
            for at_s, stream, turn in self._turns:
                yield times.ramp + at_s, partial(send, stream, turn)

        await send_at(context, times, arrivals())


async def _candidates(
    stock: Stock, callers: Sequence[int], needed: Counter[str], lines: int
) -> dict[str, list[tuple[int, Turn]]]:
    """Agent to (stream, turn), from as many calls as give every agent enough to choose from."""
    found: dict[str, list[tuple[int, Turn]]] = defaultdict(list)
    for calls in range(MOST_CALLS_PER_LINE * (lines + len(callers))):
        if all(len(found[agent]) >= CANDIDATES * count for agent, count in needed.items()):
            break
        stream = callers[calls % len(callers)]
        for turn in await stock.call(stream):
            found[turn.agent].append((stream, turn))
    return found


def _matched(
    trace: Path, lines: Iterable[tuple[int, TraceLine]], candidates: dict[str, list[tuple[int, Turn]]]
) -> Iterator[tuple[int, Turn]]:
    """For each line the turn of its agent with the nearest length, none of them twice."""
    left = {agent: sorted(turns, key=lambda found: found[1].prompt_tokens) for agent, turns in candidates.items()}
    for number, line in lines:
        turns = left.get(line.agent, [])
        where = f"{trace}, line {number + 1}"
        if not turns:
            raise UsageError(
                f"{where}: the workload has no turn of the agent {line.agent!r}",
                remedy=f"Name agents of the recipe: {', '.join(sorted(agent for agent, t in left.items() if t))}.",
            )
        place = bisect_left(turns, line.tokens, key=lambda found: found[1].prompt_tokens)
        nearest = min(
            (index for index in (place - 1, place) if 0 <= index < len(turns)),
            key=lambda index: abs(turns[index][1].prompt_tokens - line.tokens),
        )
        stream, turn = turns.pop(nearest)
        if abs(turn.prompt_tokens - line.tokens) > TOLERANCE * line.tokens:
            raise UsageError(
                f"{where}: a prompt of {line.tokens} tokens for {line.agent!r}; the nearest that the workload has left"
                f" has {turn.prompt_tokens}",
                remedy="Set workload.prompt_tokens of the recipe near the trace's, or leave such lines out.",
            )
        yield stream, turn
