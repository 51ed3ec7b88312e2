"""What every engine offers to the run, whoever started it.

An engine is a context manager: entering it gives an engine that answers, leaving it gives back everything that was
started. It is used from plain code, around the event loop that measures:

    with engine as running:
        asyncio.run(measure(running))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from types import TracebackType

    from bench.engine.compiled import Look, Since
    from bench.observe.observations import EngineEvent, EngineStarted, GraphTable
    from bench.servers import Server

Clock: TypeAlias = Callable[[], float]
"""Seconds since the run's epoch, monotonic: the same clock as the request records."""


@dataclass(frozen=True, slots=True)
class StartProgress:
    """How far an engine's start is, for a live display.

    Attributes:
        stage: what happens now, in words ("loading weights").
        elapsed_s: seconds since the process was started.
        detail: the newest figure of a long stage ("21/51"), may be empty.
    """

    stage: str
    elapsed_s: float
    detail: str = ""


OnProgress: TypeAlias = Callable[[StartProgress], None]
"""Called from the thread that enters the engine, several times a second until it is ready."""


class RunningEngine(Protocol):
    """An engine that is ready. None of its members blocks but `compiled_since`; all may be used from any thread."""

    @property
    def servers(self) -> tuple[Server, ...]:
        """Where it answers: its replicas in their order, one in the usual case."""
        ...

    @property
    def model(self) -> str:
        """The name that requests must carry."""
        ...

    @property
    def started(self) -> EngineStarted:
        """What is known about it, as the observation that opens a run. What cannot be known is None."""
        ...

    def alive(self) -> bool:
        """False once it is known to be dead; the last event then says how it ended."""
        ...

    def events(self) -> list[EngineEvent]:
        """The events since the last call, oldest first."""
        ...

    def graph_tables(self) -> list[GraphTable]:
        """What the engine told of its CUDA graphs since the last call, oldest first."""
        ...

    def compiled_since(self, moment: Since) -> list[Look]:
        """What its caches show that it has compiled since a moment; empty where they are not ours to look into.

        Looks at some thousand files, in a container by a process inside: never while a window is open. What cannot be
        looked at is said to be so (`bench.engine.compiled.CompiledCode`).
        """
        ...


class Engine(Protocol):
    """Somebody who answers. One object is one start; use it once."""

    def __enter__(self) -> RunningEngine:
        """Start if there is something to start, and return when requests are answered.

        Raises:
            StreamproofError: it cannot be started, dies, takes too long, or is not what the recipe asks for. Nothing
                is left behind then.
        """
        ...

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None:
        """Stop what was started: in good order first, by force when that takes too long. Never raises."""
        ...
