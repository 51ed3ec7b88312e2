"""A small process between client and container that leaves no container behind, however the client ends.

    client --(lifeline: a pipe that only the client holds open)--> watcher --(Docker's socket)--> container

It starts the container, so that there is no moment in which one runs that nobody watches; copies its output to the
engine's log; tells the client how it ended; and when the lifeline closes, because the client let go of it or died, even
by kill -9, it removes the container and goes.

What it tells the client are JSON objects, one a line: {"started": true} or {"refused": "..."}, later {"ended": {...}}
(of Docker's "State" of the container) or {"lost": "..."} when the Docker Engine no longer answers.

What it cannot do: when client and watcher are killed at the same moment the container runs on; the next start of any
client removes it (`bench.engine.docker_owner`).
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import docker
from docker.errors import APIError, NotFound
from docker.models.containers import Container

from bench.engine.docker_errors import DOCKER_ERRORS

_LOOK_EVERY_S: Final = 1.0
"""How often to see whether the parent still lives: a copy of the lifeline that the client's other children inherited
would keep it open after the client's death."""

_ANSWER_WITHIN_S: Final = 600
"""A container with several GPUs can take its time to start."""

_REMOVE_TRIES: Final = 10
"""A second apart: the Docker Engine may be busy, or restarting."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Start and watch the container until the client goes, then remove it. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.engine.docker_guard")
    parser.add_argument("--lifeline", type=int, required=True, help="file descriptor that the client holds open")
    parser.add_argument("--report", type=int, required=True, help="file descriptor that the client reads")
    parser.add_argument("--log", type=Path, required=True, help="file that the container's output is appended to")
    parser.add_argument("container", help="its id")
    options = parser.parse_args(arguments)
    parent = os.getppid()
    signals, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    client = docker.from_env(timeout=_ANSWER_WITHIN_S)
    container = client.containers.get(options.container)
    # A daemon thread: it hangs in a read from Docker's socket, which nothing ends but the end of the container.
    threading.Thread(target=_Watch(container, options.log, options.report).run, daemon=True).start()
    while not select.select([options.lifeline, signals], [], [], _LOOK_EVERY_S)[0]:
        if os.getppid() != parent:
            break
    return 0 if _remove(container) else 1


class _Watch:
    """One container from its start to its end.

    Args:
        container: made, not started.
        log: takes its output.
        report: descriptor that the client reads.
    """

    def __init__(self, container: Container, log: Path, report: int) -> None:
        self._container = container
        self._log = log
        self._report = report

    def run(self) -> None:
        """Start it, follow it, tell of it."""
        try:
            self._container.start()
        except DOCKER_ERRORS as error:
            refusal = error.explanation if isinstance(error, APIError) else None
            self._tell("refused", str(refusal or error))
            return
        self._tell("started", True)
        try:
            self._follow()
            self._container.wait()
            self._container.reload()
            state = self._container.attrs["State"]
            self._tell("ended", {key: state.get(key) for key in ("ExitCode", "OOMKilled", "Error")})
        except Exception as error:  # noqa: BLE001  a broken stream shows as an error of any of three libraries
            self._tell("lost", f"{type(error).__name__}: {error}")

    def _follow(self) -> None:
        with self._log.open("ab", buffering=0) as log:
            for chunk in self._container.logs(stream=True, follow=True):
                try:
                    log.write(chunk)
                except OSError:  # a full disk: the client finds that out by itself, and ends the run
                    return

    def _tell(self, what: str, value: object) -> None:
        with suppress(OSError):  # the client is gone; the lifeline tells the main thread
            os.write(self._report, json.dumps({what: value}).encode() + b"\n")


def _remove(container: Container) -> bool:
    """Whether it is gone."""
    pause = threading.Event()
    for _ in range(_REMOVE_TRIES):
        try:
            container.remove(force=True)
        except NotFound:
            return True
        except DOCKER_ERRORS:
            pause.wait(1.0)
        else:
            return True
    return False


if __name__ == "__main__":
    sys.exit(main())
