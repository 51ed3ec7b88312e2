"""Turns made before they are needed: nothing is generated, tokenized or serialized while latencies are measured.

If a stream outruns its stock, its next call is made in a thread as soon as the last turn is taken, while the reply is
under way and the caller silent; a request that still has to wait for it has the wait in its latency. The report carries
how many turns were made like that.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Self, TypeAlias

from bench.load.source import TurnSource
from bench.workload.turn import Turn

STOCK_BYTES: Final = 1 << 30
"""At most this much is prepared. A prompt of 10,000 tokens takes about 40 KB: this holds 26,000 of them."""


BeforeCall: TypeAlias = Callable[[], None]
"""May wait; what it raises ends a preparation."""


def at_once() -> None:
    """Waits for nothing."""


class Stock:
    """Prepared turns of some streams. Use as a context manager; it owns one thread.

    Args:
        source: where turns come from; only that thread calls it.
        limit_bytes: stop preparing at so many bytes of request bodies.
        before_call: is called in that thread before each call that is made in advance.

    Attributes:
        late: turns that were made after `prepare`.
        ready_bytes: request bodies that `prepare` made.
    """

    def __init__(
        self, source: TurnSource, *, limit_bytes: int = STOCK_BYTES, before_call: BeforeCall = at_once
    ) -> None:
        self._source = source
        self._limit_bytes = limit_bytes
        self._before_call = before_call
        self.ready_bytes = 0
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="turns")
        self._calls: dict[int, Iterator[Sequence[Turn]]] = {}
        self._ready: dict[int, deque[Turn]] = {}
        self._making: dict[int, asyncio.Task[None]] = {}
        self._needs: dict[int, int] = {}
        self._closed = False
        self.late = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True  # the thread may be preparing; the interpreter would wait for it
        for task in self._making.values():
            task.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def primes(self) -> list[Turn]:
        """The priming turns of the source."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, lambda: list(self._source.primes()))

    async def call(self, stream: int) -> Sequence[Turn]:
        """The stream's next call, for a load model that deals its turns out itself."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._call_ahead, stream)

    async def prepare(self, needs: Mapping[int, int]) -> None:
        """Have turns ready.

        Args:
            needs: stream to the number of turns that it may need. Whole calls are made, so there may be more; where
                the limit of bytes is met there are fewer, each stream having about as many calls as the next.
        """
        self._needs = dict(needs)
        await asyncio.get_running_loop().run_in_executor(self._thread, self._prepare, dict(needs))

    async def next(self, stream: int) -> Turn:
        """The stream's next turn."""
        ready = self._ready.setdefault(stream, deque())
        while not ready:
            await asyncio.shield(self._make(stream))
        turn = ready.popleft()
        needs = self._needs[stream] = self._needs.get(stream, 0) - 1
        if not ready and needs:  # zero: this was the last one that the stream can need
            self._make(stream)
        return turn

    def _make(self, stream: int) -> asyncio.Task[None]:
        """A task that makes the stream's next call, the one under way if there is one."""
        task = self._making.get(stream)
        if task is None:
            task = self._making[stream] = asyncio.get_running_loop().create_task(self._made(stream))
        return task

    async def _made(self, stream: int) -> None:
        try:
            turns = await asyncio.get_running_loop().run_in_executor(self._thread, self._call, stream)
            self._ready[stream].extend(turns)
            self.late += len(turns)
        finally:
            del self._making[stream]

    def _prepare(self, short: dict[int, int]) -> None:
        while short:
            for stream in list(short):
                if self._closed:
                    return
                turns = self._call_ahead(stream)
                self._ready.setdefault(stream, deque()).extend(turns)
                short[stream] -= len(turns)
                if short[stream] <= 0:
                    del short[stream]
                self.ready_bytes += sum(len(turn.body) for turn in turns)
                if self.ready_bytes >= self._limit_bytes:
                    return

    def _call_ahead(self, stream: int) -> Sequence[Turn]:
        self._before_call()
        return self._call(stream)

    def _call(self, stream: int) -> Sequence[Turn]:
        calls = self._calls.get(stream)
        if calls is None:
            calls = self._calls[stream] = self._source.calls(stream)
        return next(calls)
