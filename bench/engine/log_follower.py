"""Reads an engine's log while it is written, and stamps each line when it is read."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from bench.engine.log_lines import LineSplitter, LogLine

if TYPE_CHECKING:
    from pathlib import Path

    from bench.engine.base import Clock

OnLine: TypeAlias = Callable[[LogLine, float], None]
"""Called with each line and the time at which it was read, from the follower's thread (or that which stops it)."""

READ_EVERY_S: Final = 0.1
"""How late a stamp can be: fine enough to place an event within a window of tens of seconds, and it costs the
measuring process less than 1 ms of CPU a second (measured)."""

_CHUNK: Final = 1 << 16


class LogFollower:
    """Follows one file from its beginning, in a thread of its own, until it is stopped.

    Args:
        path: the log; it must exist.
        clock: stamps the lines.
        on_line: takes the lines.
    """

    def __init__(self, path: Path, clock: Clock, on_line: OnLine) -> None:
        self._file = path.open("rb", buffering=0)
        self._clock = clock
        self._on_line = on_line
        self._splitter = LineSplitter()
        self._stop = threading.Event()
        self._reading = threading.Lock()
        self._thread = threading.Thread(target=self._follow, name="engine-log", daemon=True)
        self._thread.start()

    def catch_up(self) -> None:
        """Hand over every line that is complete by now, at once."""
        with self._reading:
            while not self._file.closed and (data := self._file.read(_CHUNK)):
                self._hand_over(self._splitter.feed(data))

    def stop(self) -> None:
        """Read what is left, hand over the last line even if it has no end, and close. Safe to call twice."""
        self._stop.set()
        self._thread.join()
        self.catch_up()
        with self._reading:
            self._hand_over(self._splitter.flush())
            self._file.close()

    def _follow(self) -> None:
        while not self._stop.wait(READ_EVERY_S):
            self.catch_up()

    def _hand_over(self, lines: list[LogLine]) -> None:
        now = self._clock()
        for line in lines:
            self._on_line(line, now)
