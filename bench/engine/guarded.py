"""The client's side of the guard: a process that is started, watched and stopped without leaving anything behind."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_FORCE_WITHIN_S: Final = 30.0
"""Beyond the grace period. A killed process that holds a GPU can take seconds to be gone."""


def start_watcher(
    module: str,
    arguments: Sequence[str],
    *,
    env: Mapping[str, str],
    log: Path,
    keeps: Sequence[int] = (),
) -> tuple[subprocess.Popen[bytes], int]:
    """Start one of our own modules in a process that is to clear up after us.

    Args:
        module: that it runs; its first option is `--lifeline FD`: readable once the client is gone.
        arguments: further ones.
        env: its whole environment.
        log: file that its output is appended to.
        keeps: descriptors that it shall have too.

    Returns:
        The process, and our end of the lifeline: closing it, or dying, is what the watcher waits for.

    Raises:
        OSError: the log cannot be written, or no process can be made.
    """
    theirs, lifeline = os.pipe2(os.O_CLOEXEC)
    # -I: environment variables that are meant for the engine must not change which modules our own process loads.
    command = [sys.executable, "-I", "-m", module, "--lifeline", str(theirs), *arguments]
    try:
        with log.open("ab") as output:
            watcher = subprocess.Popen(  # noqa: S603  the command is the recipe's
                command,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(theirs, *keeps),
                start_new_session=True,  # Ctrl-C in the terminal is for the client, which stops the engine
            )
    except BaseException:
        os.close(lifeline)
        raise
    finally:
        os.close(theirs)
    return watcher, lifeline


class GuardedProcess:
    """A command under a guard (`bench.engine.guard`), with its output in a file.

    Args:
        command: program and arguments.
        env: its whole environment.
        log: file that its output is appended to.
        grace_s: seconds between the request to stop and the kill.

    Raises:
        OSError: the log cannot be written, or no process can be made.
    """

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str], log: Path, grace_s: float) -> None:
        self._grace_s = grace_s
        self._burial = threading.Lock()
        self._guard, self._lifeline = start_watcher(
            "bench.engine.guard", ["--grace", str(grace_s), "--", *command], env=env, log=log
        )

    def poll(self) -> int | None:
        """The exit status once it has ended (128 + N for signal N), None before. Nothing of it is left then."""
        status = self._guard.poll()
        if status is not None:
            self._bury()
        return status

    def stop(self) -> None:
        """Ask it to stop, wait for the grace period, then kill what is left. Safe to call twice."""
        with suppress(ProcessLookupError):
            self._guard.terminate()
        try:
            self._guard.wait(self._grace_s + _FORCE_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._guard.kill()
            self._guard.wait()
        self._bury()

    def _bury(self) -> None:
        """After the guard's end: see the second guard end too (it outlives the first one only when that was killed)."""
        with self._burial:
            if self._lifeline < 0:
                return
            # The pipe reports an error as soon as nobody holds its other end: both guards are gone, and with them
            # everything that they watched.
            watch = select.poll()
            watch.register(self._lifeline, 0)
            watch.poll(_FORCE_WITHIN_S * 1000)
            os.close(self._lifeline)
            self._lifeline = -1
