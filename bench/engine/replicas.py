"""Replicas: several engines of ours side by side, started, watched and stopped as one.

None of them knows of the others: each has a server, GPUs or cores, a log and a guard of its own. They share the folder
of what they compile, where vLLM 0.26.0 writes files in place and without a lock (`CompilerManager.save_to_file` in
vllm/compilation/backends.py; only the data-parallel ranks of one engine have files of their own): another replica could
read half of one. So where nothing is compiled yet, the first replica starts alone, and the others find what it made.
Otherwise all start together: what is there is not written again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias, TypeVar

from bench.engine.base import OnProgress, StartProgress
from bench.engine.cores import confined
from bench.engine.stages import Stage
from bench.errors import StreamproofError, UsageError
from bench.observe.observations import EngineEvent, EngineStarted, GraphTable, ReplicaStarted

if TYPE_CHECKING:
    from types import TracebackType

    from bench.engine.base import Clock
    from bench.engine.compiled import Look, Since
    from bench.engine.own import OwnEngine, RunningOwn
    from bench.servers import Server

Make: TypeAlias = "Callable[[OnProgress], OwnEngine]"
"""Gives an engine that can be started, which tells its progress there."""

_LOOK_EVERY_S: Final = 0.1
_Value = TypeVar("_Value")
_Told = TypeVar("_Told", EngineEvent, GraphTable)


@dataclass(frozen=True, kw_only=True)
class Replica:
    """One engine that is to be started.

    Attributes:
        make: gives it.
        gpus: UUIDs of the GPUs that it has for itself.
        cores: of this host that it is confined to; None for all.
    """

    make: Make
    gpus: tuple[str, ...]
    cores: set[int] | None


class _StoppedError(Exception):
    """Somebody stopped all starts."""


class _Start:
    """The start of one replica, in a thread of its own."""

    def __init__(self, replica: Replica, stop: threading.Event) -> None:
        self.replica = replica
        self.progress: StartProgress | None = None
        self._stop = stop
        self._engine = replica.make(self._hear)

    def begin(self) -> RunningOwn:
        """Start it and wait until it is ready."""
        with confined(self.replica.cores):
            return self._engine.__enter__()

    def end(self) -> None:
        """Stop it."""
        self._engine.__exit__(None, None, None)

    @property
    def warm(self) -> bool:
        """It was begun, and finds compiled code."""
        begun = self._engine.begun
        return begun is not None and begun.cold is False

    def _hear(self, progress: StartProgress) -> None:
        if self._stop.is_set():
            raise _StoppedError
        self.progress = progress


class ReplicatedEngine:
    """The replicas of an engine: `bench.engine.base.Engine`. One object is one start of all of them.

    Args:
        replicas: two or more, in their order.
        clock: the run's clock.
        on_progress: hears how far the start is: that of the first replica that is not ready.
    """

    def __init__(self, replicas: Sequence[Replica], *, clock: Clock, on_progress: OnProgress | None = None) -> None:
        self._clock = clock
        self._on_progress = on_progress or (lambda _: None)
        self._stop = threading.Event()
        self._starts = [_Start(replica, self._stop) for replica in replicas]

    def __enter__(self) -> RunningReplicas:
        """See `bench.engine.base.Engine`.

        Raises:
            StreamproofError: one of them cannot be started, dies, takes too long, or serves another model; says which.
        """
        began_s = self._clock()
        try:
            running = self._begin(began_s)
        except BaseException:
            self._end()
            raise
        ready_s = self._clock() - began_s
        self._on_progress(StartProgress(Stage.READY.words, ready_s))
        replicas = [start.replica for start in self._starts]
        return RunningReplicas(running, started_of(replicas, running, t=self._clock(), ready_s=ready_s))

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None:
        """Stop all of them, at the same time."""
        self._end()

    def _begin(self, began_s: float) -> list[RunningOwn]:
        first, *others = self._starts
        with self._threads() as threads:
            begun = [threads.submit(first.begin)]
            while others or not all(each.done() for each in begun):
                wait(begun, timeout=_LOOK_EVERY_S, return_when=FIRST_EXCEPTION)
                if any(each.done() and each.exception() for each in begun):
                    self._stop.set()
                    break
                if others and (first.warm or begun[0].done()):
                    begun += [threads.submit(each.begin) for each in others]
                    others = []
                self._tell(begun, began_s)
        for number, each in enumerate(begun):
            if (error := each.exception()) is not None and not isinstance(error, _StoppedError):
                _raise(number, error)
        return [each.result() for each in begun]

    @contextmanager
    def _threads(self) -> Iterator[ThreadPoolExecutor]:
        """One for each replica. Whatever ends this early (Ctrl-C) ends them: each stops its own engine."""
        with ThreadPoolExecutor(len(self._starts), thread_name_prefix="replica") as threads:
            try:
                yield threads
            except BaseException:
                self._stop.set()
                raise

    def _tell(self, begun: Sequence[Future[RunningOwn]], began_s: float) -> None:
        for number, (each, start) in enumerate(zip(begun, self._starts, strict=False)):
            if not each.done() and start.progress is not None:
                stage = f"replica {number}: {start.progress.stage}"
                self._on_progress(StartProgress(stage, self._clock() - began_s, start.progress.detail))
                return

    def _end(self) -> None:
        with ThreadPoolExecutor(len(self._starts), thread_name_prefix="replica") as threads:
            wait([threads.submit(start.end) for start in self._starts])


class RunningReplicas:
    """See `bench.engine.base.RunningEngine`.

    Args:
        running: all of them, ready.
        started: what is known of them together.
    """

    def __init__(self, running: Sequence[RunningOwn], started: EngineStarted) -> None:
        self._running = tuple(running)
        self.started = started

    @property
    def servers(self) -> tuple[Server, ...]:
        """Where they answer, in their order."""
        return tuple(server for each in self._running for server in each.servers)

    @property
    def model(self) -> str:
        """The name that requests must carry."""
        return self._running[0].model

    def alive(self) -> bool:
        """False once one of them has ended: what is measured is all of them."""
        return all(each.alive() for each in self._running)

    def events(self) -> list[EngineEvent]:
        """The events since the last call, oldest first, each with its replica."""
        return _told(each.events() for each in self._running)

    def graph_tables(self) -> list[GraphTable]:
        """What they told of their CUDA graphs since the last call, likewise."""
        return _told(each.graph_tables() for each in self._running)

    def compiled_since(self, moment: Since) -> list[Look]:
        """What they have compiled since a moment, likewise; of nobody where all of them keep it in one place."""
        one, *others = (each.compiled for each in self._running)
        if all(other == one for other in others):
            return [one.since(moment)]
        return [
            each.compiled.since(moment).model_copy(update={"replica": number})
            for number, each in enumerate(self._running)
        ]


def started_of(
    replicas: Sequence[Replica], running: Sequence[RunningOwn], *, t: float, ready_s: float
) -> EngineStarted:
    """What is known of the replicas together, and of each.

    Args:
        replicas: as they were asked for.
        running: as they are.
        t: when all were ready.
        ready_s: how long that took.
    """
    each = [one.started for one in running]
    cold = [one.cold for one in each]
    return each[0].model_copy(
        update={
            "t": t,
            "ready_s": ready_s,
            "stages": (),
            "version": _agreed([one.version for one in each]),
            "max_model_len": _agreed([one.max_model_len for one in each]),
            "block_size": _agreed([one.block_size for one in each]),
            "prefix_caching": _agreed([one.prefix_caching for one in each]),
            "mamba_cache_mode": _agreed([one.mamba_cache_mode for one in each]),
            "cold": None if None in cold else any(cold),
            "replicas": tuple(
                ReplicaStarted(
                    ready_s=one.ready_s,
                    stages=one.stages,
                    argv=one.argv,
                    cold=one.cold,
                    gpus=replica.gpus,
                    cores=None if replica.cores is None else tuple(sorted(replica.cores)),
                )
                for replica, one in zip(replicas, each, strict=True)
            ),
        }
    )


def _agreed(values: Sequence[_Value | None]) -> _Value | None:
    """What all say; None where they do not say the same."""
    return values[0] if all(value == values[0] for value in values) else None


def _told(of_each: Iterator[list[_Told]]) -> list[_Told]:
    told = [each.model_copy(update={"replica": number}) for number, found in enumerate(of_each) for each in found]
    return sorted(told, key=lambda each: each.t)


def _raise(number: int, error: BaseException) -> NoReturn:
    if not isinstance(error, StreamproofError):
        raise error
    kind = UsageError if isinstance(error, UsageError) else StreamproofError
    raise kind(f"replica {number}: {error.message}", remedy=error.remedy) from error
