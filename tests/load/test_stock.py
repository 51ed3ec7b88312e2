from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from bench.load.stock import Stock
from tests.truth.workload import TruthSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.workload.turn import Turn


def test_prepared_turns_come_in_order_and_none_is_late() -> None:
    async def main() -> tuple[list[tuple[int, int]], int]:
        with Stock(TruthSource(turns=2)) as stock:
            await stock.prepare({0: 5, 3: 1})
            turns = [await stock.next(0) for _ in range(5)] + [await stock.next(3)]
            return [(turn.conversation, turn.turn) for turn in turns], stock.late

    assert asyncio.run(main()) == ([(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (0, 0)], 0)


def test_a_stream_that_outruns_its_stock_gets_turns_that_are_counted() -> None:
    async def main() -> tuple[list[tuple[int, int]], int]:
        with Stock(TruthSource(turns=2)) as stock:
            await stock.prepare({0: 1})
            turns = [await stock.next(0) for _ in range(4)]
            await asyncio.gather(*stock._making.values())
            return [(turn.conversation, turn.turn) for turn in turns], stock.late

    turns, late = asyncio.run(main())
    assert turns == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert late == 4  # the second call was made when the first had been taken, and the third when the second had


def test_two_that_wait_for_one_stream_get_different_turns() -> None:
    async def main() -> set[tuple[int, int]]:
        with Stock(TruthSource(turns=1)) as stock:
            turns = await asyncio.gather(*(stock.next(0) for _ in range(5)))
            return {(turn.conversation, turn.turn) for turn in turns}

    assert asyncio.run(main()) == {(number, 0) for number in range(5)}


def test_a_waiter_that_is_cancelled_takes_no_turn_with_it() -> None:
    async def main() -> int:
        with Stock(TruthSource(turns=1)) as stock:
            waiter = asyncio.ensure_future(stock.next(0))
            await asyncio.sleep(0)
            waiter.cancel()
            return (await stock.next(0)).conversation

    assert asyncio.run(main()) == 0


def test_preparation_stops_at_its_limit_with_equally_many_for_each() -> None:
    async def main() -> list[int]:
        source = TruthSource(turns=1, prompt_tokens=100)
        size = len(next(source.calls(0))[0].body)
        with Stock(source, limit_bytes=6 * size) as stock:
            await stock.prepare(dict.fromkeys(range(3), 1000))
            return [len(stock._ready[stream]) for stream in range(3)]

    assert asyncio.run(main()) == [2, 2, 2]


def test_leaving_ends_a_preparation() -> None:
    """Ctrl-C while a million turns are made: the thread must not hold the process."""
    made = threading.Event()

    class Endless(TruthSource):
        def calls(self, stream: int) -> Iterator[Sequence[Turn]]:
            for call in super().calls(stream):
                made.set()
                yield call

    async def main() -> None:
        with Stock(Endless()) as stock:
            preparing = asyncio.ensure_future(stock.prepare({0: 10**12}))
            await asyncio.to_thread(made.wait)
            preparing.cancel()
        await asyncio.to_thread(stock._thread.shutdown, wait=True)

    asyncio.run(main())


def test_leaving_drops_what_is_under_way() -> None:
    async def main() -> None:
        with Stock(TruthSource()) as stock:
            waiter = asyncio.ensure_future(stock.next(0))
            await asyncio.sleep(0)
        await asyncio.wait([waiter])
        assert waiter.cancelled()

    asyncio.run(main())
