"""Signals that end a command: whoever sends them, it ends in one way."""

from __future__ import annotations

import signal
from contextlib import contextmanager
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
