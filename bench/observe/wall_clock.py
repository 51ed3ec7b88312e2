"""Unix time on a run's clock: for what others stamp, as a file system stamps files."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

TICK_S: Final = 0.01
"""How much earlier than the wall clock a file may be stamped: Linux takes the time of its last tick, of which there are
100 to 1,000 a second."""


@dataclass(frozen=True, slots=True)
class WallClock:
    """How the wall clock stood to the run's at one moment. It holds as long as nobody sets or slews the wall clock.

    Attributes:
        offset_s: Unix time at the run's epoch, as both clocks go now.
    """

    offset_s: float

    @classmethod
    def read(cls, clock: Callable[[], float]) -> WallClock:
        """As both stand now.

        Args:
            clock: the run's, in seconds since its epoch.
        """
        before = clock()
        wall = time.time()
        # The wall clock was read between the two: their middle is nearest to it.
        return cls(wall - (before + clock()) / 2)

    def of(self, run_s: float) -> float:
        """A time of the run in Unix time, seconds."""
        return run_s + self.offset_s

    def on_run(self, wall_s: float) -> float:
        """A Unix time in seconds since the run's epoch."""
        return wall_s - self.offset_s
