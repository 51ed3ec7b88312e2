"""An engine as a process of ours on this host: started, watched, stopped. One object is one start."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.engine.base import Clock, OnProgress, StartProgress
from bench.engine.child_env import child_environment
from bench.engine.compile_cache import is_cold
from bench.engine.discovery import choose_model, is_healthy, served_models, server_version
from bench.engine.guarded import GuardedProcess
from bench.engine.log_events import EventReader, root_cause
from bench.engine.log_follower import LogFollower
from bench.engine.metrics import CacheConfig, MetricsPage
from bench.engine.stages import Stage, StartUp
from bench.errors import StreamproofError
from bench.observe.observations import EngineEvent, EngineStarted

if TYPE_CHECKING:
    from types import TracebackType

    from bench.engine.environment import EngineEnvironment
    from bench.engine.log_lines import LogLine

HOST: Final = "127.0.0.1"
"""Nobody but this host needs to reach an engine that is being measured from it."""

GRACE_S: Final = 20.0
"""Between the request to stop and the kill. vLLM takes one or two seconds, more when it holds many GPUs."""

_LOOK_EVERY_S: Final = 0.1
_REMEMBERED_LINES: Final = 500
"""A dying vLLM writes some 200 lines of tracebacks, of which the first one names the cause."""
_SHOWN_LINES: Final = 8
_SHOWN_CHARACTERS: Final = 200


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


class ProcessEngine:
    """Starts an engine and waits until it answers.

    Args:
        launch: what to start.
        run: index of the engine start.
        clock: the run's clock.
        on_progress: hears how far the start is.
    """

    def __init__(self, launch: Launch, *, run: int, clock: Clock, on_progress: OnProgress | None = None) -> None:
        self._launch = launch
        self._run = run
        self._clock = clock
        self._on_progress = on_progress
        self._running: RunningProcess | None = None

    def __enter__(self) -> RunningProcess:
        """See `bench.engine.base.Engine`.

        Raises:
            StreamproofError: it cannot be started, dies, takes too long, or serves another model.
        """
        running = self._running = RunningProcess(self._launch, run=self._run, clock=self._clock)
        try:
            running.wait_until_ready(self._on_progress or (lambda _: None))
        except BaseException:
            running.stop()
            raise
        return running

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None:
        """Ask the engine to stop, and kill what is left of it after `GRACE_S`."""
        if self._running is not None:
            self._running.stop()


class RunningProcess:
    """See `bench.engine.base.RunningEngine`. `started` is there once the engine is ready.

    Args:
        launch: what to start.
        run: index of the engine start.
        clock: the run's clock.

    Raises:
        StreamproofError: the log cannot be written, or no process can be made.
    """

    api_key = None

    def __init__(self, launch: Launch, *, run: int, clock: Clock) -> None:
        self._launch = launch
        self._run = run
        self._clock = clock
        self._start_up = StartUp()
        self._reader = EventReader(run)
        self._lines: deque[LogLine] = deque(maxlen=_REMEMBERED_LINES)
        self._events: deque[EngineEvent] = deque()
        self._ready = False
        self._stopping = False
        self._death: str | None = None
        self._burial = threading.Lock()
        port = _free_port()
        self.base_url = f"http://{HOST}:{port}"
        self.argv = (*launch.environment.command(), *launch.arguments(port))
        env = child_environment(launch.environment.env, launch.env)
        self._cold = is_cold(env)
        self._began = clock()
        try:
            launch.log.touch()
            self._follower = LogFollower(launch.log, clock, self._take)
            try:
                self._process = GuardedProcess(self.argv, env=env, log=launch.log, grace_s=GRACE_S)
            except BaseException:
                self._follower.stop()
                raise
        except OSError as error:
            raise StreamproofError(
                f"the engine cannot be started: {error.filename or launch.log}: {error.strerror}",
                remedy="The run's folder must be writable, with room for the engine's log.",
            ) from error

    @property
    def model(self) -> str:
        """The name that requests must carry."""
        return self._launch.model

    @property
    def started(self) -> EngineStarted:
        """What is known about it since it is ready."""
        return self._started

    def alive(self) -> bool:
        """False once it has ended, by itself or by us."""
        status = self._process.poll()
        if status is None:
            return True
        self._note_death(status)
        return False

    def events(self) -> list[EngineEvent]:
        """The events since the last call, oldest first; after an unwanted end the last one is "died"."""
        self.alive()
        return [self._events.popleft() for _ in range(len(self._events))]

    def stop(self) -> None:
        """Stop it in good order, then by force. Safe to call twice, and when it is dead already."""
        self._stopping = True
        self._process.stop()
        self._follower.stop()

    def wait_until_ready(self, on_progress: OnProgress) -> None:
        """Return when it answers and lists the model.

        Raises:
            StreamproofError: it died, took too long, or serves another model.
        """
        pause = threading.Event()
        while not is_healthy(self.base_url):
            on_progress(StartProgress(self._start_up.stage.words, self._elapsed(), self._start_up.detail))
            if not self.alive():
                raise StreamproofError(
                    f"the engine died while {self._start_up.stage.words}: {self._death}{self._tail()}",
                    remedy=f"Its whole log is in {self._launch.log}.",
                )
            if self._elapsed() > self._launch.ready_timeout_s:
                raise StreamproofError(
                    f"the engine was not ready after {self._launch.ready_timeout_s:g} s; "
                    f"it was {self._start_up.stage.words}{self._tail()}",
                    remedy=f"Raise engine.ready_timeout_s of the recipe, or see its log in {self._launch.log}.",
                )
            pause.wait(_LOOK_EVERY_S)
        self._started = self._inspect()
        self._ready = True
        on_progress(StartProgress(Stage.READY.words, self._elapsed()))

    def _inspect(self) -> EngineStarted:
        self._follower.catch_up()  # before the time is taken: no stage may begin after the engine was ready
        ready_s = self._elapsed()
        model = choose_model(served_models(self.base_url), self._launch.model, self.base_url)
        page = MetricsPage(self.base_url).read()
        cache = page.cache_config() if page else CacheConfig(block_size=None, prefix_caching=None)
        facts = self._start_up.facts
        return EngineStarted(
            t=self._clock(),
            run=self._run,
            kind_of_engine="process",
            ready_s=ready_s,
            stages=self._start_up.stages(ready_s),
            version=server_version(self.base_url),
            model=model.name,
            max_model_len=model.max_model_len,
            block_size=facts.attention_block_size if cache.block_size is None else cache.block_size,
            prefix_caching=facts.prefix_caching if cache.prefix_caching is None else cache.prefix_caching,
            argv=self.argv,
            packages_sha256=self._launch.environment.packages_sha256,
            cold=self._cold,
        )

    def _elapsed(self) -> float:
        return self._clock() - self._began

    def _take(self, line: LogLine, t: float) -> None:
        """A line of the log; called by the follower."""
        self._lines.append(line)
        self._start_up.feed(line, t - self._began)
        if event := self._reader.feed(line, t, serving=self._ready):
            self._events.append(event)

    def _note_death(self, status: int) -> None:
        with self._burial:
            if self._death is not None or self._stopping:
                return
            self._follower.stop()  # so that its last words are read
            cause = root_cause(self._lines)
            self._death = describe_exit(status) + (f": {cause}" if cause else "")
            self._events.append(
                EngineEvent(t=self._clock(), run=self._run, event="died", line=self._death[:500], line_number=None)
            )

    def _tail(self) -> str:
        shown = list(self._lines)[-_SHOWN_LINES:]
        return "".join(f"\n    {line.text[:_SHOWN_CHARACTERS]}" for line in shown)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def describe_exit(status: int) -> str:
    """An exit status in words: 128 + N is signal N, as a shell says; below zero it is the guard's own end."""
    number = status - 128 if status > 128 else -status
    with contextlib.suppress(ValueError):
        return f"it was killed by {signal.Signals(number).name}"
    return f"it ended with status {status}"
