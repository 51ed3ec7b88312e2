"""The client's side of a container's watcher: a container that is started, watched and removed whatever happens."""

from __future__ import annotations

import json
import os
import select
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.engine.docker_end import describe_end
from bench.engine.docker_errors import DOCKER_ERRORS, refused
from bench.engine.guarded import start_watcher
from bench.engine.own import GRACE_S
from bench.errors import StreamproofError

if TYPE_CHECKING:
    from docker.models.containers import Container

_FORCE_WITHIN_S: Final = 30.0
"""Beyond the grace period: a container that holds a GPU can take seconds to be gone."""

_LAST_WORDS_WITHIN_S: Final = 10.0
"""For the watcher to write the rest of the output, once the container has stopped."""

_PASSED: Final = ("DOCKER_", "PATH", "HOME")
"""Beginnings of the variables that the watcher needs to find the same Docker Engine; no secret is among them."""

_DOING: Final = "start the engine's container"


class WatchedContainer:
    """See `bench.engine.own.Body`: a container under a watcher (`bench.engine.docker_guard`).

    Args:
        container: made, not started. It is removed when this fails.
        log: file that its output is appended to.

    Raises:
        OSError: the log cannot be written, or no process can be made.
        StreamproofError: Docker cannot start it.
    """

    def __init__(self, container: Container, log: Path) -> None:
        self.container = container
        self._end: str | None = None
        self._unread = b""
        self._reading = threading.Lock()
        self._report, theirs = os.pipe2(os.O_CLOEXEC)
        try:
            self._watcher, self._lifeline = start_watcher(
                "bench.engine.docker_guard",
                ["--report", str(theirs), "--log", str(log), str(container.id)],
                env={name: value for name, value in os.environ.items() if name.startswith(_PASSED)},
                log=log,
                keeps=(theirs,),
            )
        except BaseException:
            os.close(self._report)
            remove(container)
            raise
        finally:
            os.close(theirs)
        try:
            self._await_start(log)
        except BaseException:
            self.stop()
            raise

    def ended(self) -> str | None:
        """How it ended, in words, once it has."""
        with self._reading:
            if self._end is None and self._report >= 0 and _readable(self._report, 0.0):
                self._take(self._read())
            return self._end

    def stop(self) -> None:
        """Ask it to stop, wait, kill it, remove it. Safe to call twice."""
        if self._lifeline < 0:
            return
        if self.ended() is None:
            with suppress(*DOCKER_ERRORS):
                self.container.stop(timeout=int(GRACE_S))
            self._hear_last_words()
        os.close(self._lifeline)
        self._lifeline = -1
        try:
            self._watcher.wait(_FORCE_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._watcher.kill()
            self._watcher.wait()
        remove(self.container)  # in case that the watcher was killed before
        with self._reading:
            os.close(self._report)
            self._report = -1
            self._end = self._end or "it was removed"

    def _await_start(self, log: Path) -> None:
        said = self._read()
        if "refused" in said:
            self._end = "it was never started"
            raise refused(said["refused"], _DOING)
        if "started" not in said:
            raise StreamproofError(
                f"the watcher of the engine's container ended before that was started (status {self._watcher.wait()})",
                remedy=f"What it said is at the end of {log}.",
            )

    def _hear_last_words(self) -> None:
        with self._reading:
            if self._end is None and _readable(self._report, _LAST_WORDS_WITHIN_S):
                self._take(self._read())

    def _take(self, said: dict[str, Any]) -> None:
        if "ended" in said:
            self._end = describe_end(said["ended"])
        elif "lost" in said:
            self._end = f"the Docker Engine no longer answers: {said['lost']}"
        else:
            self._end = "the watcher of its container was killed, and the container with it"

    def _read(self) -> dict[str, Any]:
        """The next thing that the watcher tells; nothing when it is gone. Blocks."""
        while b"\n" not in self._unread:
            data = os.read(self._report, 1 << 16)
            if not data:
                return {}
            self._unread += data
        line, self._unread = self._unread.split(b"\n", 1)
        said: dict[str, Any] = json.loads(line)
        return said


def _readable(descriptor: int, within_s: float) -> bool:
    watch = select.poll()  # select.select() takes no descriptor beyond 1,023, and a client has thousands
    watch.register(descriptor, select.POLLIN)
    return bool(watch.poll(within_s * 1000))


def remove(container: Container) -> None:
    """Remove a container, whatever it does; one that is gone already is fine. Never raises."""
    with suppress(*DOCKER_ERRORS):
        container.remove(force=True)
