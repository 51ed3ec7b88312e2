"""Work on what strangers made, in a process of its own: however it ends, whoever asked for it goes on.

A verification bounds its own memory and time (`verify_bounds`) where it runs on the main thread of a process that does
nothing else, as in a command. In a server the bound of memory would be that of every other thread, and the bound of
time has no thread that it can interrupt. So a server has such work done here, and the system ends what takes too much,
a library that aborts or does not return to Python included.

The processes are forked from one that has loaded our code and nothing else (Python's fork server): that takes 10 ms.
They have the rights of whoever asked; what they are kept from is memory and time.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import resource
import signal
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar, TypeVarTuple

from bench.errors import StreamproofError
from bench.report.verify_bounds import memory_for
from bench.signals import out_of_reach_of_ctrl_c

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkServerProcess

_ArgsT = TypeVarTuple("_ArgsT")
_ResultT = TypeVar("_ResultT")

ANSWER_LIMIT: Final = 64 << 20
"""Bytes of a result: what is listed of a report has some thousand, the page of a comparison some ten thousand."""
SLOWEST: Final = 10
"""Seconds that may pass for each one of CPU time: a busy machine gives less of it; what waits for ever takes none."""
_REMEDY: Final = "No report of ours comes near: ask whoever made it."


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a piece of work may take.

    Attributes:
        memory_bytes: more than the process has before it begins.
        cpu_s: seconds of CPU time.
    """

    memory_bytes: int
    cpu_s: int


class EndedError(StreamproofError):
    """The work has no result; the message says why: "it takes more than 10 s of CPU time"."""


@dataclass(frozen=True, slots=True)
class _Raised:
    """An error on its way from one process to another, whatever its constructor asks for."""

    kind: type[StreamproofError]
    attributes: dict[str, Any]

    def error(self) -> StreamproofError:
        error = self.kind.__new__(self.kind, self.attributes["message"])
        error.__dict__.update(self.attributes)
        return error


class Apart:
    """Has work done in processes of its own, one for each piece; any number of threads may ask at once.

    Args:
        modules: that the work needs, by name: loaded once and not for every piece. All of a program have one fork
            server: it loads what was named last before the first piece of work.
    """

    def __init__(self, *modules: str) -> None:
        self._context = multiprocessing.get_context("forkserver")
        if modules:
            self._context.set_forkserver_preload(list(modules))
        self._lock = threading.Lock()
        self._running: set[ForkServerProcess] = set()
        self._closed = False

    def run(self, bounds: Bounds, work: Callable[[*_ArgsT], _ResultT], *arguments: *_ArgsT) -> _ResultT:
        """Does one piece of work, and waits for it.

        Args:
            bounds: of this piece.
            work: a function of a module, by whose name the process finds it.
            arguments: of it; they and its result can be pickled.

        Raises:
            StreamproofError: that the work raised.
            EndedError: the work took too much, or raised something else.
        """
        ours, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(target=_do, args=(theirs, bounds, work, arguments), daemon=True)
        with ours:
            with theirs, self._lock:
                if self._closed:
                    raise EndedError("it was not looked at: this program ends")
                with out_of_reach_of_ctrl_c():  # with it the fork server, before the first one
                    process.start()
                self._running.add(process)
            try:
                answer = _received(ours, bounds)
            except BaseException:
                process.kill()
                raise
            finally:
                with self._lock:  # who starts one takes the exit codes of all that ended
                    process.join()
                    code = process.exitcode
                    self._running.discard(process)
                process.close()
        if answer is None:
            raise EndedError(_why(code, bounds), remedy=_REMEDY)
        if isinstance(answer, _Raised):
            raise answer.error()
        result: _ResultT = answer[0]
        return result

    def close(self) -> None:
        """Ends what runs, and does nothing more."""
        with self._lock:
            self._closed = True
            for process in self._running:
                process.kill()


def _received(answers: Connection, bounds: Bounds) -> Any:  # noqa: ANN401  what was pickled
    """A tuple with what came of the work, or what it raised; None where the process was ended before it said it.

    Raises:
        EndedError: it says too much, or nothing.
    """
    if not answers.poll(bounds.cpu_s * SLOWEST):
        raise EndedError(f"it takes more than {bounds.cpu_s * SLOWEST:,} s", remedy=_REMEDY)
    try:
        return pickle.loads(answers.recv_bytes(ANSWER_LIMIT))  # noqa: S301  a process of ours has written it
    except EOFError:
        return None
    except OSError as error:
        raise EndedError(f"more came of it than {ANSWER_LIMIT >> 20} MiB", remedy=_REMEDY) from error


def _do(answers: Connection, bounds: Bounds, work: Callable[[*_ArgsT], _ResultT], arguments: tuple[*_ArgsT]) -> None:
    """What a process does, from its beginning to its end."""
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123  a library that aborts may print what a stranger wrote
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    if hard == resource.RLIM_INFINITY or bounds.cpu_s < hard:
        resource.setrlimit(resource.RLIMIT_CPU, (bounds.cpu_s, hard))
    answer: tuple[_ResultT] | _Raised
    try:
        with memory_for(bounds.memory_bytes):
            answer = (work(*arguments),)
    except StreamproofError as known:
        answer = _Raised(type(known), vars(known))
    except MemoryError:
        answer = _ended(f"it takes more than {_memory(bounds)} of memory")
    except Exception as unknown:  # noqa: BLE001  whatever a stranger's file does, it is said in words
        answer = _ended(f"{type(unknown).__name__} while it was looked at")
    answers.send_bytes(pickle.dumps(answer))


def _ended(why: str) -> _Raised:
    return _Raised(EndedError, {"message": why, "remedy": _REMEDY})


def _why(code: int | None, bounds: Bounds) -> str:
    """Why a process ended that had not said what it found."""
    if code == -signal.SIGXCPU:
        return f"it takes more than {bounds.cpu_s:,} s of CPU time"
    number = -(code or 0)
    how = signal.Signals(number).name if number in signal.valid_signals() else f"exit code {code}"
    return f"whatever looks at it ends by {how}: most often it wants more than {_memory(bounds)} of memory"


def _memory(bounds: Bounds) -> str:
    return f"{bounds.memory_bytes >> 20:,} MiB"
