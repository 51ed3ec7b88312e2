"""An engine of ours from its start to its end, whatever it runs in: followed by its log, asked over HTTP.

What it runs in, a process or a container, is a `Body`. Everything else is the same for both and stands here: when the
engine is ready, what it says of itself, which lines of its log matter, and how its end is told.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Protocol

from bench.engine.base import Clock, OnProgress, StartProgress
from bench.engine.discovery import choose_model, is_healthy, served_models, server_version
from bench.engine.graph_tables import GraphTableReader
from bench.engine.log_events import EventReader, root_cause
from bench.engine.log_follower import LogFollower
from bench.engine.metrics import CacheConfig, MetricsPage
from bench.engine.stages import Stage, StartUp
from bench.errors import StreamproofError
from bench.explain.doctor.hook import diagnosis_of, known_cause
from bench.observe.observations import ContainerFacts, EngineEvent, EngineStarted, GraphTable
from bench.servers import Server

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from bench.engine.compiled import CompiledCode, Look, Since
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


class Body(Protocol):
    """What an engine runs in. Its output is appended to the start's log."""

    def ended(self) -> str | None:
        """How it ended, in words, once it has; None before. Does not block; may be called from any thread."""
        ...

    def stop(self) -> None:
        """Ask it to stop, wait for `GRACE_S`, then kill what is left. Safe to call twice; never raises."""
        ...


@dataclass(frozen=True, kw_only=True)
class Start:
    """One engine start, as the run wants it.

    Attributes:
        model: the name that it will serve under.
        log: file that its output is appended to.
        ready_timeout_s: a start that takes longer has failed.
        run: index of the engine start.
        clock: the run's clock.
    """

    model: str
    log: Path
    ready_timeout_s: float
    run: int
    clock: Clock


@dataclass(frozen=True, kw_only=True)
class Begun:
    """An engine that has been begun and does not answer yet, with what is known of it from outside.

    Attributes:
        body: what it runs in.
        base_url: where it will answer.
        api_key: that it will ask for; None for none.
        compiled: where it keeps what it compiles.
        kind, argv, packages_sha256, cold, container: as in `bench.observe.observations.EngineStarted`.
    """

    body: Body
    base_url: str
    compiled: CompiledCode
    kind: Literal["process", "docker"]
    argv: tuple[str, ...]
    packages_sha256: str | None
    cold: bool | None
    api_key: str | None = None
    container: ContainerFacts | None = None


class OwnEngine(ABC):
    """Starts an engine and waits until it answers: `bench.engine.base.Engine`. One object is one start.

    Args:
        start: what is wanted.
        on_progress: hears how far the start is.
    """

    def __init__(self, start: Start, on_progress: OnProgress | None = None) -> None:
        self._start = start
        self._on_progress = on_progress
        self._running: RunningOwn | None = None

    @abstractmethod
    def _begin(self) -> Begun:
        """Begin the engine; its output goes to the start's log, which exists.

        Raises:
            OSError: a file or a process cannot be made.
            StreamproofError: it cannot be begun. Nothing is left behind then.
        """

    @property
    def begun(self) -> RunningOwn | None:
        """The engine since it was begun, ready or not; None before. From any thread."""
        return self._running

    def __enter__(self) -> RunningOwn:
        """See `bench.engine.base.Engine`.

        Raises:
            StreamproofError: it cannot be started, dies, takes too long, or serves another model.
        """
        running = self._running = RunningOwn(self._start, self._begin)
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


class RunningOwn:
    """See `bench.engine.base.RunningEngine`. `started` is there once the engine is ready.

    Args:
        start: what is wanted.
        begin: begins it.

    Raises:
        StreamproofError: the log cannot be written, or the engine cannot be begun.
    """

    def __init__(self, start: Start, begin: Callable[[], Begun]) -> None:
        self._start = start
        self._start_up = StartUp()
        self._reader = EventReader(start.run)
        self._lines: deque[LogLine] = deque(maxlen=_REMEMBERED_LINES)
        self._events: deque[EngineEvent] = deque()
        self._table_reader = GraphTableReader(start.run)
        self._tables: deque[GraphTable] = deque()
        self._ready = False
        self._stopping = False
        self._death: str | None = None
        self._burial = threading.Lock()
        self._began_s = start.clock()
        try:
            start.log.touch()
            self._follower = LogFollower(start.log, start.clock, self._take)
            try:
                self._begun = begin()
            except BaseException:
                self._follower.stop()
                raise
        except OSError as error:
            raise StreamproofError(
                f"the engine cannot be started: {error.filename or start.log}: {error.strerror}",
                remedy="The run's folder must be writable, with room for the engine's log.",
            ) from error

    @property
    def body(self) -> Body:
        """What it runs in."""
        return self._begun.body

    @property
    def base_url(self) -> str:
        """Scheme, host and port."""
        return self._begun.base_url

    @property
    def api_key(self) -> str | None:
        """Bearer token for every request; None where none is wanted."""
        return self._begun.api_key

    @property
    def servers(self) -> tuple[Server, ...]:
        """Where it answers."""
        return (Server(self.base_url, self.api_key),)

    @property
    def compiled(self) -> CompiledCode:
        """Where it keeps what it compiles."""
        return self._begun.compiled

    @property
    def cold(self) -> bool | None:
        """Whether the compile caches were empty when it was begun; None when unknown."""
        return self._begun.cold

    @property
    def model(self) -> str:
        """The name that requests must carry."""
        return self._start.model

    @property
    def started(self) -> EngineStarted:
        """What is known about it since it is ready."""
        return self._started

    @property
    def death(self) -> str | None:
        """How it ended by itself, in words, once that is known."""
        return self._death

    def alive(self) -> bool:
        """False once it has ended, by itself or by us."""
        ended = self.body.ended()
        if ended is None:
            return True
        self._note_death(ended)
        return False

    def events(self) -> list[EngineEvent]:
        """The events since the last call, oldest first; after an unwanted end the last one is "died"."""
        self.alive()
        return [self._events.popleft() for _ in range(len(self._events))]

    def graph_tables(self) -> list[GraphTable]:
        """What the engine told of its CUDA graphs since the last call, oldest first."""
        return [self._tables.popleft() for _ in range(len(self._tables))]

    def compiled_since(self, moment: Since) -> list[Look]:
        """What it has compiled since a moment."""
        return [self.compiled.since(moment)]

    def stop(self) -> None:
        """Stop it in good order, then by force. Safe to call twice, and when it is dead already."""
        self._stopping = True
        self.body.stop()
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
                    remedy=f"{diagnosis_of(self._start.log)}Its whole log is in {self._start.log}.",
                )
            if self._elapsed() > self._start.ready_timeout_s:
                raise StreamproofError(
                    f"the engine was not ready after {self._start.ready_timeout_s:g} s; "
                    f"it was {self._start_up.stage.words}{self._tail()}",
                    remedy=f"{diagnosis_of(self._start.log)}Raise engine.ready_timeout_s of the recipe, or see its log "
                    f"in {self._start.log}.",
                )
            pause.wait(_LOOK_EVERY_S)
        self._started = self._inspect()
        self._ready = True
        on_progress(StartProgress(Stage.READY.words, self._elapsed()))

    def _inspect(self) -> EngineStarted:
        self._follower.catch_up()  # before the time is taken: no stage may begin after the engine was ready
        ready_s = self._elapsed()
        url, key = self.base_url, self.api_key
        model = choose_model(served_models(url, api_key=key), self._start.model, url)
        page = MetricsPage(*self.servers).read()
        cache = page.cache_config() if page else CacheConfig(block_size=None, prefix_caching=None)
        facts = self._start_up.facts
        return EngineStarted(
            t=self._start.clock(),
            run=self._start.run,
            kind_of_engine=self._begun.kind,
            ready_s=ready_s,
            stages=self._start_up.stages(ready_s),
            version=server_version(url, api_key=key),
            model=model.name,
            max_model_len=model.max_model_len,
            block_size=facts.attention_block_size if cache.block_size is None else cache.block_size,
            prefix_caching=facts.prefix_caching if cache.prefix_caching is None else cache.prefix_caching,
            mamba_cache_mode=cache.mamba_cache_mode,
            argv=self._begun.argv,
            packages_sha256=self._begun.packages_sha256,
            cold=self._begun.cold,
            container=self._begun.container,
        )

    def _elapsed(self) -> float:
        return self._start.clock() - self._began_s

    def _take(self, line: LogLine, t: float) -> None:
        """A line of the log; called by the follower."""
        self._lines.append(line)
        self._start_up.feed(line, t - self._began_s)
        if event := self._reader.feed(line, t, serving=self._ready):
            self._events.append(event)
        if table := self._table_reader.feed(line, t):
            self._tables.append(table)

    def _note_death(self, ended: str) -> None:
        with self._burial:
            if self._death is not None or self._stopping:
                return
            self._follower.stop()  # so that its last words are read
            cause = root_cause(self._lines)
            self._death = ended + (f": {cause}" if cause else "")
            known = known_cause(self._start.log) if self._ready else ""
            died = EngineEvent(
                t=self._start.clock(),
                run=self._start.run,
                event="died",
                line=f"{self._death[:400]}{known}",
                line_number=None,
            )
            self._events.append(died)

    def _tail(self) -> str:
        shown = list(self._lines)[-_SHOWN_LINES:]
        return "".join(f"\n    {line.text[:_SHOWN_CHARACTERS]}" for line in shown)


def describe_exit(status: int) -> str:
    """An exit status in words: 128 + N is signal N, as a shell says; below zero it is the watching process's own."""
    number = status - 128 if status > 128 else -status
    with contextlib.suppress(ValueError):
        return f"it was killed by {signal.Signals(number).name}"
    return f"it ended with status {status}"
