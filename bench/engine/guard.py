"""A small process between client and engine that leaves nothing of the engine behind, however the client ends.

    client --(lifeline: a pipe that only the client holds open)--> guard --> second guard --> engine --> its processes

- The client ends, even by kill -9: the lifeline closes, and the guards kill every process of the engine.
- SIGTERM, SIGINT or SIGHUP: the engine is asked to stop; what is left after the grace period is killed.
- The engine ends: what it left behind is killed.
- A guard itself is killed with -9: the other one kills the engine.

Both guards are child subreapers: an engine process whose parent dies becomes the child of the nearest living guard,
so that none can get away, whatever session or process group it moved to. A guard reads nothing, writes nothing but
that a program cannot be started, and ends with the engine's exit status; 128 + N when signal N ended the engine, as a
shell would say.

What it cannot do: when client and both guards are killed with -9 at the same moment, only the engine's first process
goes with them (PR_SET_PDEATHSIG).

vLLM needs this. When its first process is killed, EngineCore and its workers live on and keep the GPU's memory.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import psutil

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

CANNOT_START: Final = 127
"""Exit status when the engine's program cannot be started, as a shell would say."""

_LOOK_EVERY_S: Final = 1.0
"""How often to see whether the parent still lives: a copy of the lifeline that the client's other children inherited
would keep it open after the client's death."""

_SECOND_GRACE_S: Final = 5.0
"""How much longer the outer guard waits for the inner one than that waits for the engine."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command until it, or the client, ends. Returns the engine's exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.engine.guard")
    parser.add_argument("--lifeline", type=int, required=True, help="file descriptor that the client holds open")
    parser.add_argument("--grace", type=float, required=True, help="seconds between SIGTERM and SIGKILL")
    parser.add_argument("command", nargs="+", help="the engine and its arguments")
    options = parser.parse_args(arguments)
    lifeline: int = options.lifeline
    grace_s: float = options.grace

    def second_guard() -> int:
        # A signal that comes before the second guard has a pipe of its own must wait, not go into ours.
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
        pid = os.fork()
        if pid:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP_SIGNALS)
            return pid
        # SIGTERM at the outer guard's death wakes this one at once; it then finds its parent gone and kills.
        _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        os._exit(_Guard(lifeline, grace_s).run(lambda: _start(options.command)))

    return _Guard(lifeline, grace_s + _SECOND_GRACE_S).run(second_guard)


class _Guard:
    """Watches one child and everything that descends from it.

    Args:
        lifeline: readable once the client is gone.
        grace_s: seconds between SIGTERM and SIGKILL.
    """

    def __init__(self, lifeline: int, grace_s: float) -> None:
        self._lifeline = lifeline
        self._grace_s = grace_s
        self._parent = os.getppid()
        self._child = 0
        self._status: int | None = None
        self._kill_at: float | None = None

    def run(self, start: Callable[[], int]) -> int:
        """Start the child, watch it, clear up. `start` returns its process id. Returns the exit status."""
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        signals = _signal_pipe()
        self._child = start()
        while self._status is None:
            ready, _, _ = select.select([self._lifeline, signals], [], [], self._patience())
            received = os.read(signals, 512) if signals in ready else b""
            if any(number in received for number in _STOP_SIGNALS):
                self._ask_to_stop()
            self._reap()
            if self._lifeline in ready or os.getppid() != self._parent or self._is_overdue():
                break
        self._kill_all()
        return _shell_status(self._status or 0)

    def _patience(self) -> float:
        if self._kill_at is None:
            return _LOOK_EVERY_S
        return min(_LOOK_EVERY_S, max(0.0, self._kill_at - time.monotonic()))

    def _is_overdue(self) -> bool:
        return self._kill_at is not None and time.monotonic() >= self._kill_at

    def _ask_to_stop(self) -> None:
        if self._kill_at is None:
            self._kill_at = time.monotonic() + self._grace_s
            with suppress(ProcessLookupError):
                os.kill(self._child, signal.SIGTERM)

    def _reap(self) -> None:
        """Collect what has ended: the child, and orphans that became our children."""
        with suppress(ChildProcessError):
            while self._took(os.waitpid(-1, os.WNOHANG)):
                pass

    def _kill_all(self) -> None:
        """Kill every descendant, and wait until there is none.

        A process that forks between the look and the kill leaves a child that we see in the next round: its death is
        reported to us, since its parent is dead or ourselves.
        """
        with suppress(ChildProcessError):
            while True:
                for process in psutil.Process().children(recursive=True):
                    with suppress(psutil.NoSuchProcess):
                        process.kill()
                self._took(os.waitpid(-1, 0))

    def _took(self, waited: tuple[int, int]) -> bool:
        pid, status = waited
        if pid == self._child:
            self._status = status
        return pid != 0


def _start(command: Sequence[str]) -> int:
    """Start the engine in a session of its own; the kernel kills it when we die. Returns its process id."""
    guard = os.getpid()

    def tie_to_guard() -> None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:  # died before the line above
            os._exit(CANNOT_START)

    try:
        # This process has one thread, so that running Python between fork and exec is safe.
        engine = subprocess.Popen(command, start_new_session=True, preexec_fn=tie_to_guard)  # noqa: S603, PLW1509
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr, flush=True)  # noqa: T201  stderr is the engine's log
        os._exit(CANNOT_START)
    engine.returncode = 0  # the guard collects it, not this object, which must not complain when it goes
    return engine.pid


def _signal_pipe() -> int:
    """A descriptor that delivers the number of each signal that we act on, one byte each."""
    reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (*_STOP_SIGNALS, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP_SIGNALS)
    return reading


def _shell_status(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _load_prctl() -> Callable[[int, int], None]:
    libc = ctypes.CDLL(None, use_errno=True)

    def prctl(option: int, value: int) -> None:
        if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    return prctl


_prctl: Final = _load_prctl()


if __name__ == "__main__":
    # At once: while Python ends in good order it gives up its signal handlers, and a SIGTERM then would be our status.
    os._exit(main())
