"""Signals that end a command: whoever sends them, it ends in one way, and tells its processes itself."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from multiprocessing.resource_tracker import ensure_running
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


@contextmanager
def sigterm_is_ctrl_c() -> Iterator[None]:
    """SIGTERM ends what is within as Ctrl-C does, also while no event loop runs."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def out_of_reach_of_ctrl_c() -> Iterator[None]:
    """Processes of `multiprocessing` that this thread starts within never get SIGINT.

    A terminal sends Ctrl-C to all of them, and whoever started them says when they end. That their first line of code
    ignores the signal is too late: Python loads before it, and ends with a traceback when it is met then. A mask is
    inherited from the start.
    """
    ensure_running()  # on its own start, Python's tracker unblocks the signal in this thread
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
