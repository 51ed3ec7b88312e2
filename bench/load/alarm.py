"""Wake-ups to some tens of microseconds.

asyncio sleeps in `epoll_wait`, whose timeout is whole milliseconds, rounded up: `loop.call_at` is half a millisecond
late on average and one at worst. All of that would count as latency, because latency runs from the intended send time.
A timerfd (timerfd_create(2)) is a file descriptor that becomes readable at a nanosecond deadline, and no timer slack is
added to it; one of them serves every deadline of a loop.
"""

from __future__ import annotations

import asyncio
import ctypes
import heapq
import os
import time
from collections.abc import Callable
from itertools import count
from typing import Final, Self, TypeAlias

CLOCK_MONOTONIC: Final = 1
TFD_NONBLOCK: Final = os.O_NONBLOCK
TFD_CLOEXEC: Final = os.O_CLOEXEC
TFD_TIMER_ABSTIME: Final = 1

Callback: TypeAlias = Callable[[], object]


class _Timespec(ctypes.Structure):
    _fields_ = (("tv_sec", ctypes.c_long), ("tv_nsec", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("it_interval", _Timespec), ("it_value", _Timespec))


_libc = ctypes.CDLL(None, use_errno=True)


class Entry:
    """One deadline; `cancel` may be called at any time, also after it fired."""

    __slots__ = ("callback", "number", "when")

    def __init__(self, when: float, number: int, callback: Callback) -> None:
        self.when = when
        self.number = number
        self.callback: Callback | None = callback

    def __lt__(self, other: Entry) -> bool:
        return (self.when, self.number) < (other.when, other.number)

    def cancel(self) -> None:
        """The callback will not be called."""
        self.callback = None


class Alarm:
    """Deadlines on the monotonic clock, for one event loop. Use as a context manager inside that loop.

    Callbacks due at the same moment run in the order in which they were asked for. A callback that raises is reported
    by the loop's exception handler and does not stop the others.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._heap: list[Entry] = []
        self._number = count()
        self._armed: float | None = None
        self._spec = _Itimerspec()
        self._spec_ref = ctypes.byref(self._spec)
        self._fd = _libc.timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)
        if self._fd < 0:
            error = ctypes.get_errno()
            raise OSError(error, f"timerfd_create: {os.strerror(error)}")
        self._loop.add_reader(self._fd, self._fire)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop every deadline and the descriptor. Idempotent."""
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1
            self._heap.clear()

    def call_at(self, when: float, callback: Callback) -> Entry:
        """Call `callback` at `when` (seconds of `time.monotonic`); at the next turn of the loop if that is past."""
        entry = Entry(when, next(self._number), callback)
        heapq.heappush(self._heap, entry)
        if self._armed is None or when < self._armed:
            self._arm(when)
        return entry

    async def sleep_until(self, when: float) -> None:
        """Return at `when` (seconds of `time.monotonic`), at once if that is past."""
        woken: asyncio.Future[None] = self._loop.create_future()

        def wake() -> None:
            if not woken.done():
                woken.set_result(None)

        entry = self.call_at(when, wake)
        try:
            await woken
        finally:
            entry.cancel()

    def _arm(self, when: float) -> None:
        self._armed = when
        # A zero deadline would disarm the timer; one nanosecond after the start of the clock is just as past.
        nanoseconds = max(1, int(when * 1e9))
        self._spec.it_value.tv_sec, self._spec.it_value.tv_nsec = divmod(nanoseconds, 1_000_000_000)
        if _libc.timerfd_settime(self._fd, TFD_TIMER_ABSTIME, self._spec_ref, None) != 0:
            error = ctypes.get_errno()
            raise OSError(error, f"timerfd_settime: {os.strerror(error)}")

    def _fire(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:
            return  # re-armed for later between the wake-up and now
        self._armed = None
        heap = self._heap
        now = time.monotonic()
        due: list[Callback] = []
        while heap and (heap[0].callback is None or heap[0].when <= now):
            entry = heapq.heappop(heap)
            if entry.callback is not None:
                due.append(entry.callback)
                entry.callback = None
        if heap:
            self._arm(heap[0].when)
        for callback in due:
            try:
                callback()
            except Exception as error:  # noqa: BLE001  a loop reports what its callbacks raise, and goes on
                self._loop.call_exception_handler({"message": "a deadline's callback failed", "exception": error})
