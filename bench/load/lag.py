"""The client watches itself: how late its loop is, how much CPU it takes."""

from __future__ import annotations

import time
from array import array
from collections.abc import Sequence
from typing import Final

from bench.load.alarm import Alarm, Entry
from bench.stats.quantiles import rank_of

TICK_S: Final = 0.02
"""Fifty times a second: thousands of samples in a window, and the wake-ups cost a fifth of a percent of a core."""


class LagMonitor:
    """How late a timer fires, fifty times a second, while it runs.

    The timer is the one that sends the requests (`bench.load.alarm`), so what is measured is what they suffer. Ticks
    keep to their schedule: those that a stall swallowed are counted too, each with its own lateness, or one long stall
    would hide in a single sample (the coordinated omission of lag monitors).

    Attributes:
        samples: lateness of each tick, seconds.
    """

    def __init__(self, alarm: Alarm) -> None:
        self._alarm = alarm
        self._entry: Entry | None = None
        self._due = 0.0
        self.samples = array("d")

    def start(self) -> None:
        """Begin; the first tick comes after one interval."""
        self._due = time.monotonic() + TICK_S
        self._entry = self._alarm.call_at(self._due, self._tick)

    def stop(self) -> None:
        """No more ticks."""
        if self._entry is not None:
            self._entry.cancel()
            self._entry = None

    def _tick(self) -> None:
        now = time.monotonic()
        while self._due <= now:
            self.samples.append(now - self._due)
            self._due += TICK_S
        self._entry = self._alarm.call_at(self._due, self._tick)


class CpuMeter:
    """CPU seconds (user and system, all threads) of this process, and wall seconds, since it was made."""

    def __init__(self) -> None:
        self._cpu = time.process_time()
        self._wall = time.monotonic()

    def read(self) -> tuple[float, float]:
        """CPU seconds, wall seconds."""
        return time.process_time() - self._cpu, time.monotonic() - self._wall


def quantile(values: Sequence[float], q: float) -> float | None:
    """The q-quantile as an order statistic (`bench.stats.quantiles`); None of no values."""
    return sorted(values)[rank_of(len(values), q) - 1] if len(values) else None
