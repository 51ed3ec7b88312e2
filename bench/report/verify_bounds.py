"""How much memory and time the evidence of a report may take, whatever it makes our own code do.

Counting what is claimed beforehand (`verify_work`, `verify_parquet`) gives the better reasons. These bounds are for
what nobody has thought of: the system ends it. On threads of a program that does something else as well neither bound
is of use: `apart` gives such work a process of its own.
"""

from __future__ import annotations

import re
import resource
import signal
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

MEMORY_BYTES: Final = 4 << 30
"""More than the process has already. A million requests need some 800 MB."""
CPU_S: Final = 600.0
"""Seconds of CPU time. A million requests need 5; predicting as many prefix-cache hits as are predicted, some 100."""
_AGAIN_S: Final = 1.0
"""Between two signals: an exception that is raised where Python cannot pass it on is lost."""


class OutOfTimeError(BaseException):
    """The time is up. Like KeyboardInterrupt it is no `Exception`, so that nothing on the way takes it for one."""


@contextmanager
def memory_for(more: int) -> Iterator[None]:
    """Lets the process take at most so many bytes more than it has; what wants more gets a MemoryError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    data = re.search(r"^VmData:\s+(\d+) kB$", Path("/proc/self/status").read_text(encoding="ascii"), re.MULTILINE)
    wanted = (int(data[1]) << 10) + more if data else soft
    limits = [limit for limit in (wanted, soft, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits, default=resource.RLIM_INFINITY), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


@contextmanager
def cpu_time(seconds: float) -> Iterator[None]:
    """Lets the process take at most so much CPU time; only on the main thread, where Python can be interrupted.

    Raises:
        OutOfTimeError: out of whatever was going on.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def up(_number: int, _frame: FrameType | None) -> None:
        raise OutOfTimeError

    before = signal.signal(signal.SIGPROF, up)
    try:
        signal.setitimer(signal.ITIMER_PROF, seconds, _AGAIN_S)
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
