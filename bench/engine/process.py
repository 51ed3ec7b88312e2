"""An engine as a process of ours on this host: started, watched, stopped. One object is one start."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.engine.child_env import child_environment
from bench.engine.compile_cache import is_cold
from bench.engine.compiled import FoldersHere
from bench.engine.guarded import GuardedProcess
from bench.engine.own import GRACE_S, HOST, Begun, OwnEngine, Start, describe_exit

if TYPE_CHECKING:
    from bench.engine.base import Clock, OnProgress
    from bench.engine.environment import EngineEnvironment


_giving: Final = threading.Lock()
_given: Final[set[int]] = set()


@dataclass(frozen=True, kw_only=True)
class Launch:
    """What to start.

    Attributes:
        environment: the installed engine.
        arguments: gives the engine's arguments for the port that it shall listen on, at `HOST`.
        model: the name that it will serve under.
        env: environment variables of the recipe.
        log: file that its output is appended to.
        ready_timeout_s: a start that takes longer has failed.
    """

    environment: EngineEnvironment
    arguments: Callable[[int], Sequence[str]]
    model: str
    env: Mapping[str, str]
    log: Path
    ready_timeout_s: float


class ProcessBody:
    """See `bench.engine.own.Body`: a command under a guard.

    Args:
        process: started.
    """

    def __init__(self, process: GuardedProcess) -> None:
        self.process = process

    def ended(self) -> str | None:
        """How it ended, in words, once it has."""
        status = self.process.poll()
        return None if status is None else describe_exit(status)

    def stop(self) -> None:
        """Ask it to stop, wait, then kill what is left."""
        self.process.stop()


class ProcessEngine(OwnEngine):
    """An engine as a process of ours.

    Args:
        launch: what to start.
        run: index of the engine start.
        clock: the run's clock.
        on_progress: hears how far the start is.
    """

    def __init__(self, launch: Launch, *, run: int, clock: Clock, on_progress: OnProgress | None = None) -> None:
        start = Start(model=launch.model, log=launch.log, ready_timeout_s=launch.ready_timeout_s, run=run, clock=clock)
        super().__init__(start, on_progress)
        self._launch = launch

    def _begin(self) -> Begun:
        launch = self._launch
        port = free_port()
        argv = (*launch.environment.command(), *launch.arguments(port))
        env = child_environment(launch.environment.env, launch.env)
        cold = is_cold(env)
        process = GuardedProcess(argv, env=env, log=launch.log, grace_s=GRACE_S)
        return Begun(
            body=ProcessBody(process),
            base_url=f"http://{HOST}:{port}",
            compiled=FoldersHere.of(env),
            kind="process",
            argv=argv,
            packages_sha256=launch.environment.packages_sha256,
            cold=cold,
        )


def free_port() -> int:
    """A TCP port of `HOST` on which nothing listens now, and that nobody here was given before.

    An engine listens only after many seconds: the port of one replica is free for all to see when the next one starts.
    """
    with _giving:
        while True:
            with socket.socket() as probe:
                probe.bind((HOST, 0))
                port: int = probe.getsockname()[1]
            if port not in _given:
                _given.add(port)
                return port
