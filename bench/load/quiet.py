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


@contextmanager
def undisturbed() -> Iterator[None]:
    """For the time of the block, garbage collection looks at new objects only, and threads give way sooner.

    Prepared turns are many objects that live on; a full collection would walk all of them, and a hundred megabytes of
    turns stop the loop for tens of milliseconds.
    """
    interval = sys.getswitchinterval()
    gc.collect()
    gc.freeze()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
        gc.unfreeze()
