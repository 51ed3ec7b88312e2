"""Lines of an engine's log that matter to a measurement, and the line that says why an engine died.

vLLM 0.26.0 writes no line when it preempts a request (its counter tells, see `bench.engine.metrics`), and by default
names a compiled kernel only once: a log without such lines is necessary for a valid window, not sufficient.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from bench.observe.observations import EngineEvent

if TYPE_CHECKING:
    from bench.engine.log_lines import LogLine

Event: TypeAlias = Literal["jit", "graph_capture", "preemption", "error", "warning", "died"]

LONGEST_EVENT: Final = 500
"""Characters kept of an event's line."""

_TELLING: Final[tuple[tuple[re.Pattern[str], Event], ...]] = (
    # The JIT monitor of vLLM: "Triton kernel JIT compilation during inference: fused_moe_kernel. ..."
    (re.compile(r"\bJIT compilation during inference\b"), "jit"),
    # Triton, DeepGEMM and FlashInfer themselves.
    (re.compile(r"^Triton autotuning for function "), "jit"),
    (re.compile(r"^DeepGEMM warmup"), "jit"),
    (re.compile(r"\[Autotuner\]: Autotuning process starts"), "jit"),
    # torch.compile: a new shape made it compile again.
    (re.compile(r"\bDynamo bytecode transform time|\btorch\.compile took "), "jit"),
    (re.compile(r"^Capturing CUDA graphs|^Graph capturing finished"), "graph_capture"),
    # Other servers and older releases say so in the log.
    (re.compile(r"\bis preempted by PreemptionMode\b"), "preemption"),
)

_CAUSE: Final = re.compile(
    r"^(?:[\w.]+\.)?\w*(?:Error|Exception|Interrupt|Exit)\b(?::|$)|^Worker proc \S+ died unexpectedly"
)
"""The last line of a traceback, "torch.OutOfMemoryError: CUDA out of memory"; or that a process was killed."""

_COUNTED: Final = re.compile(r"ValidationError: \d+ validation errors? for \w+$")

_COMMAND_LINE_ERROR: Final = re.compile(r"^\S+: error: ")
"""How argparse refuses: "api_server.py: error: unrecognized arguments: --nope"."""

_NOT_THE_CAUSE: Final = (
    "Engine core initialization failed. See root cause above",
    "EngineDeadError",
    "EngineCore encountered an issue",
    "destroy_process_group() was not called",
)
"""What the outer processes say when an inner one has failed."""


class EventReader:
    """Turns the lines of one run's log into events. A traceback or another block of lines is one event, its first.

    Args:
        run: index of the engine start.
    """

    def __init__(self, run: int) -> None:
        self._run = run
        self._block: tuple[str, str, str] | None = None

    def feed(self, line: LogLine, t: float, *, serving: bool) -> EngineEvent | None:
        """The event that this line is, if it is one.

        Args:
            line: the next line.
            t: when it was read, on the run's clock.
            serving: the engine answers requests. Before that, compiling and capturing is what a start is for, and no
                event.
        """
        block = (line.process, line.level, line.source)
        continued, self._block = block == self._block, block
        for pattern, event in _TELLING:
            if pattern.search(line.message):
                return self._event(event, line, t) if serving else None
        if line.level in ("ERROR", "CRITICAL") and not (continued and line.source):
            return self._event("error", line, t)
        if line.level == "WARNING" and not (continued and line.source):
            return self._event("warning", line, t)
        return None

    def _event(self, event: Event, line: LogLine, t: float) -> EngineEvent:
        return EngineEvent(t=t, run=self._run, event=event, line=line.text[:LONGEST_EVENT], line_number=line.number)


def root_cause(lines: Iterable[LogLine]) -> str | None:
    """The line that says why the engine failed; None where no line does.

    The first exception that is not merely a report of another one, at level ERROR or outside the logging; warnings with
    a traceback are survived. Else what the command line's parser said.
    """
    rest = iter(lines)
    for line in rest:
        if line.level in ("", "ERROR", "CRITICAL") and _CAUSE.match(line.message):
            if _COUNTED.search(line.message):  # pydantic counts the errors here and says the first one below
                return next(rest, line).message.strip()
            if not any(phrase in line.message for phrase in _NOT_THE_CAUSE):
                return line.message
        elif _COMMAND_LINE_ERROR.match(line.text):
            return line.text
    return None
