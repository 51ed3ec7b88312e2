"""Points made ready ahead of time: the first one while the engine starts, the others whenever it does no harm.

Turns depend on seeds alone, so nothing changes but the time at which they are made. They are made in a thread of this
process, which would delay stamps: it stands still from the moment that a point is handed out until that point is over.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Final, Self, TypeAlias

from bench.load.ready import ReadyPoint
from bench.load.stock import STOCK_BYTES, BeforeCall

MakePoint: TypeAlias = Callable[[BeforeCall], ReadyPoint]
"""Makes a point that is not ready yet; what it is given goes to its stock."""

MOST_BYTES: Final = STOCK_BYTES
"""Beyond this much in points that wait for their turn, the next one is made ready when it is asked for."""


class Ahead:
    """Makes points ready, one after the other. Use as a context manager; it owns one thread.

    Args:
        points: by their index in the ladder, in the order in which they will be asked for.
        most_bytes: see `MOST_BYTES`.
    """

    def __init__(self, points: Mapping[int, MakePoint], *, most_bytes: int = MOST_BYTES) -> None:
        self._points = points
        self._most_bytes = most_bytes
        self._ready: dict[int, Future[ReadyPoint]] = {index: Future() for index in points}
        self._changed = threading.Condition()
        self._asked = 0
        self._standing = False
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="ahead", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End what is under way, and give up the points that nobody took."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()
        for point in self._waiting(before=max(self._points, default=0) + 1):
            point.close()

    async def take(self, index: int) -> ReadyPoint:
        """A point, as soon as it is ready; from then on nothing is made, until `go_on`. The caller closes it.

        Raises:
            Exception: whatever its making or its preparation raised.
        """
        with self._changed:
            self._asked, self._standing = index, False
            self._changed.notify_all()
        point = await asyncio.shield(asyncio.wrap_future(self._ready[index]))
        with self._changed:
            self._standing = True
            del self._ready[index]  # its turns live no longer than its load
        return point

    def go_on(self) -> None:
        """The point that was taken is over: the next one may be made ready."""
        with self._changed:
            self._asked, self._standing = self._asked + 1, False
            self._changed.notify_all()

    def _work(self) -> None:
        for index, make in self._points.items():
            future = self._ready[index]
            try:
                future.set_result(self._made(index, make))
            except _ClosedError:
                return
            except Exception as error:  # noqa: BLE001  it is raised where the point is taken
                future.set_exception(error)

    def _made(self, index: int, make: MakePoint) -> ReadyPoint:
        self._wait(index)
        point = make(lambda: self._wait(index))
        try:
            asyncio.run(point.prepare())
        except BaseException:
            point.close()
            raise
        return point

    def _wait(self, index: int) -> None:
        """Until something may be made for this point."""

        def free() -> bool:
            waiting = sum(point.stock.ready_bytes for point in self._waiting(before=index))
            early = index > self._asked and waiting >= self._most_bytes
            return self._closed or not (self._standing or early)

        with self._changed:
            self._changed.wait_for(free)
            if self._closed:
                raise _ClosedError

    def _waiting(self, *, before: int) -> list[ReadyPoint]:
        """Points before this one that are ready, and that nobody has taken."""
        futures = [future for index, future in self._ready.items() if index < before and future.done()]
        return [future.result() for future in futures if future.exception() is None]


class _ClosedError(Exception):
    """Nobody wants the points any more."""
