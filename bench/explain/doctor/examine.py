"""One log from its bytes to its diagnoses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from bench.errors import StreamproofError
from bench.explain.doctor.diagnose import Diagnosis, diagnose
from bench.explain.doctor.knowledge import knowledge
from bench.explain.doctor.reader import LogReader
from bench.explain.doctor.source import pieces

if TYPE_CHECKING:
    from bench.explain.doctor.knowledge import Knowledge


class Verdict(StrEnum):
    """What a log comes to."""

    HEALTHY = "healthy"
    """The engine served, and nothing is worse than it was asked for."""
    DOWNGRADED = "downgraded"
    """The engine served, and does something worse than it was asked for."""
    FAILED = "failed"
    """It failed, and the cause is known."""
    UNKNOWN = "unknown"
    """It failed or the log ends before it was ready, and no known cause fits."""
    NO_LOG = "no log"
    """No log of vLLM, or it cannot be read."""


@dataclass(frozen=True)
class Examined:
    """One log.

    Attributes:
        path: of the log; "-" for standard input.
        verdict: the worst of its starts.
        lines: that it has.
        starts: how many engine starts are in it.
        diagnoses: one for each start that was kept, in order.
        problem: why it is no log of vLLM, or cannot be read; empty for one that is.
        advice: what to do about that.
    """

    path: Path
    verdict: Verdict
    lines: int = 0
    starts: int = 0
    diagnoses: tuple[Diagnosis, ...] = ()
    problem: str = ""
    advice: str = ""


def examine(path: Path, on_read: Callable[[int], None] | None = None) -> Examined:
    """Reads a log once and says what it shows. Memory does not grow with the log.

    Args:
        path: the log, plain or gzip; "-" for standard input.
        on_read: hears how many bytes were read since its last call.
    """
    known = knowledge()
    try:
        return examine_pieces(path, pieces(path, on_read), known)
    except StreamproofError as error:
        return Examined(path, Verdict.NO_LOG, problem=error.message, advice=error.remedy)


def examine_pieces(path: Path, data: Iterable[bytes], known: Knowledge) -> Examined:
    """The same for bytes that are there already."""
    reader = LogReader(known)
    for piece in data:
        reader.feed(piece)
    reader.close()
    diagnoses = tuple(diagnose(start, known) for start in reader.starts)
    if problem := _no_log(reader, diagnoses):
        return Examined(path, Verdict.NO_LOG, lines=reader.lines, problem=problem[0], advice=problem[1])
    verdict = max((verdict_of(diagnosis) for diagnosis in diagnoses), key=list(Verdict).index)
    return Examined(path, verdict, reader.lines, reader.starts_seen, diagnoses)


def verdict_of(diagnosis: Diagnosis) -> Verdict:
    """What one start comes to."""
    if diagnosis.failed:
        return Verdict.FAILED if diagnosis.finding else Verdict.UNKNOWN
    return Verdict.DOWNGRADED if diagnosis.downgrades else Verdict.HEALTHY


def _no_log(reader: LogReader, diagnoses: tuple[Diagnosis, ...]) -> tuple[str, str] | None:
    """Why these bytes are no log of vLLM, and what to do; None where they are one, or an excerpt that says enough."""
    if not reader.first:
        return "The log is empty.", "The engine wrote nothing, or its output went elsewhere (docker logs, journalctl)."
    if reader.is_vllm:
        return None
    server = reader.other_server
    if server is not None:
        return f"This is a log of {server.name}, not of vLLM.", server.advice or "This doctor knows vLLM's logs only."
    if any(diagnosis.finding and diagnosis.failure for diagnosis in diagnoses):
        return None
    return (
        "No line of this log is vLLM's.",
        "Give the engine's own output from its start on (docker logs, kubectl logs, journalctl -o cat).",
    )
