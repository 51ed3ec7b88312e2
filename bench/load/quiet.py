"""Keep the interpreter from disturbing the clock while a point is measured."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

SWITCH_INTERVAL_S: Final = 0.0005
"""A thread that computes (the display, a late turn) holds the interpreter for this long at most when the loop wants
it; Python's default of 5 ms would be added to every stamp that falls into it."""

NEVER: Final = 1_000_000
"""Collections of the middle generation before one of the oldest: more than a point can have."""


@contextmanager
def undisturbed() -> Iterator[None]:
    """For the time of the block, garbage collection looks at young objects only, and threads give way sooner.

    Prepared turns and ten thousand sleeping streams are a million objects that live on. A collection of the oldest
    generation would walk all of them, with the loop standing still for a tenth of a second, and find nothing.
    """
    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
    gc.collect()
    gc.set_threshold(thresholds[0], thresholds[1], NEVER)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
        gc.set_threshold(*thresholds)
