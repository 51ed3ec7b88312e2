"""Puts tracebacks together, one process at a time, from lines that several processes wrote in turn.

vLLM prints one failure many times: in the worker, in the engine core, by multiprocessing, in the API server; as a
block of ERROR lines or bare. A chain of exceptions is one failure whose first exception is its cause.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bench.engine.log_lines import LogLine

HEADER: Final = "Traceback (most recent call last)"
_LINKS: Final = ("During handling of the above exception", "The above exception was the direct cause")
_FRAME: Final = re.compile(
    r'(?P<indent>\s{0,8})File "(?:[^"]{0,400}/)?(?P<file>[^"/]{1,100})", line \d{1,9}, in (?P<function>[\w<>.]{1,200})'
)
_EXCEPTION: Final = re.compile(r"[A-Za-z_][\w.]{0,200}(?:\([\w.]{1,100}\))?(?::|$)")
_BARE: Final = re.compile(
    r"(?:[A-Za-z_]\w{0,80}\.){0,8}[A-Z]\w{0,80}(?:Error|Exception|OutOfResources)(?:\([\w.]{1,100}\))?(?:: |$)"
)
"""An exception's line where no traceback precedes it (somebody pasted only this) or where indentation was lost."""

_BAR: Final = re.compile(r"[^:|]{1,120}: +\d{1,3}%\|")
_LONGEST_MESSAGE: Final = 8
"""Lines kept of one exception's message."""
_LONGEST_TEXT: Final = 2000
"""Characters kept of one line."""
_MOST_FRAMES: Final = 400


@dataclass(frozen=True, slots=True)
class Raised:
    """One exception.

    Attributes:
        line: number of the line that names it.
        text: "ValueError: ..." and the lines of its message that follow.
    """

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Failure:
    """One traceback, or one line that says that something ended.

    Attributes:
        first_line: number of its first line.
        last_line: number of its last line.
        node: container, pod or host.
        process: "EngineCore", "Worker_TP0", ...; empty where the lines do not say.
        level: of the lines ("ERROR", "WARNING"); empty where they have none.
        before: the line of the same process before it ("EngineCore failed to start.").
        functions: names of the functions and of their files ("sampler.py"), outermost first, all exceptions of the
            chain together.
        raised: the chain, the cause first. Empty where the log was cut off before it.
    """

    first_line: int
    last_line: int
    node: str
    process: str
    level: str
    before: str = ""
    functions: tuple[str, ...] = ()
    raised: tuple[Raised, ...] = ()

    @property
    def text(self) -> str:
        """All exceptions of the chain."""
        return "\n".join(exception.text for exception in self.raised)


@dataclass(slots=True)
class _Open:
    """A traceback whose end was not seen yet."""

    failure: Failure
    block: tuple[str, str]
    functions: list[str] = field(default_factory=list)
    raised: list[Raised] = field(default_factory=list)
    message: list[str] | None = None
    message_line: int = 0
    linked: bool = False
    flat: bool = False

    def enter(self, frame: re.Match[str]) -> None:
        """Notes a frame. One without indentation tells that the log lost all of it."""
        self.flat = self.flat or not frame["indent"]
        if len(self.functions) < _MOST_FRAMES:
            self.functions += [frame["file"], frame["function"]]

    def end_message(self) -> None:
        if self.message is not None:
            self.raised.append(Raised(self.message_line, "\n".join(self.message)))
            self.message = None


class TracebackReader:
    """Reads one process's lines; `feed` gives a failure once the line after its end came."""

    def __init__(self) -> None:
        self._open: _Open | None = None
        self._before = ""

    def feed(self, line: LogLine) -> Failure | None:
        """Take the process's next line.

        Returns:
            The failure that ended before this line, if one did.
        """
        message = line.message[:_LONGEST_TEXT]
        if self._open is None:
            self._begin(line, message)
            return None
        if self._continue(self._open, line, message):
            self._open.failure = replace(self._open.failure, last_line=line.number)
            return None
        ended = self.close()
        self._begin(line, message)
        return ended

    def close(self) -> Failure | None:
        """The failure that stands open at the end of the log, if one does."""
        ended, self._open = self._open, None
        if ended is None:
            return None
        ended.end_message()
        return replace(ended.failure, functions=tuple(ended.functions), raised=tuple(ended.raised))

    def _begin(self, line: LogLine, message: str) -> None:
        headed = HEADER in message
        frame = None if headed else _FRAME.match(message)
        bare = None
        if not headed and not frame and line.level in ("", "ERROR", "CRITICAL"):
            bare = _BARE.match(message)
        if not (headed or frame or bare):
            self._before = message
            return
        failure = Failure(line.number, line.number, line.node, line.process, line.level, before=self._before)
        self._open = _Open(failure, block=(line.level, line.source))
        if frame:
            self._open.enter(frame)
        if bare:
            self._open.message, self._open.message_line = [message.strip()], line.number
        self._before = ""

    def _continue(self, traceback: _Open, line: LogLine, message: str) -> bool:
        """Whether the line belongs to the traceback that is open."""
        if (line.level, line.source) != traceback.block or _BAR.match(message):
            # Other lines of the same process, in between: they end a message but not a traceback.
            return traceback.message is None and not line.level and HEADER not in message
        if any(link in message for link in _LINKS):
            traceback.end_message()
            traceback.linked = True
            return True
        if HEADER in message:
            linked, traceback.linked = traceback.linked, False
            return linked
        if frame := _FRAME.match(message):
            if traceback.message is None:
                traceback.enter(frame)
            return traceback.message is None
        return traceback.linked or self._exception(traceback, line, message)

    @staticmethod
    def _exception(traceback: _Open, line: LogLine, message: str) -> bool:
        """Takes a line that is an exception, a further line of its message, or code of a frame."""
        if traceback.message is not None:
            if len(traceback.message) >= _LONGEST_MESSAGE:
                return False
            traceback.message.append(message.strip())
            return True
        pattern = _BARE if traceback.flat else _EXCEPTION
        if not message.startswith((" ", "\t")) and pattern.match(message):
            traceback.message, traceback.message_line = [message.strip()], line.number
        return True
