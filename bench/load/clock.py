"""The clock of a run: monotonic, so that no step of the wall clock can bend a latency."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunClock:
    """Seconds since the run's epoch, on CLOCK_MONOTONIC, which every process of one host shares.

    Attributes:
        epoch: the run's epoch in seconds of `time.monotonic`.
        epoch_wall: the same moment in seconds of Unix time; for people and for joining logs, never for a latency.
    """

    epoch: float
    epoch_wall: float

    @classmethod
    def start(cls) -> RunClock:
        """A clock whose epoch is now."""
        before = time.monotonic()
        wall = time.time()
        # The wall clock was read between the two: their middle is nearest to it.
        return cls(epoch=(before + time.monotonic()) / 2, epoch_wall=wall)

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.monotonic() - self.epoch

    def since_epoch(self, monotonic: float) -> float:
        """A reading of `time.monotonic` as seconds since the epoch."""
        return monotonic - self.epoch

    def monotonic(self, run_s: float) -> float:
        """Seconds since the epoch as a reading of `time.monotonic`."""
        return run_s + self.epoch
