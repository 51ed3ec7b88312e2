"""One engine start as its log tells it: how far it came, what it said of itself, what failed. Memory stays bounded."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from bench.engine.stages import Stage, StartUp
from bench.explain.doctor.phrases import Phrase, Reading, Value, keep
from bench.explain.doctor.serving import Reports
from bench.explain.doctor.tracebacks import Failure, Raised, TracebackReader

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench.engine.log_lines import LogLine
    from bench.explain.doctor.knowledge import Knowledge

LONGEST_QUOTE: Final = 400
"""Characters kept of a quoted line."""
_SHORT_QUOTE: Final = 200
_BEGINNING: Final = 72
"""Characters of a long line's beginning that are kept beside the part that tells: process, level, time, source."""
_TAIL: Final = 6
_MOST_FAILURES: Final = 60
"""Failures kept from the start of the log, and again as many from its end."""
_MOST_PROCESSES: Final = 128
"""Processes told apart. A log that names more puts the rest into one."""

_ORDER: Final = {stage: place for place, stage in enumerate(Stage)}
_RANK: Final = re.compile(r"[\d_]+|(?: ?rank=\d+)|(?:_?(?:TP|PP|DP|EP|DCP|PCP)\d+)")


@dataclass(frozen=True, slots=True)
class Quote:
    """A line of the log.

    Attributes:
        line: its number.
        text: the line, cut to `LONGEST_QUOTE`.
        count: how many lines were like it.
    """

    line: int
    text: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class Seen:
    """A failure and where the start stood.

    Attributes:
        failure: the traceback or line.
        stage: that the start had reached.
        ready: requests were being answered.
    """

    failure: Failure
    stage: Stage
    ready: bool


_MOST_SHAPES: Final = 8192
_NO_DIGITS: Final = str.maketrans("", "", "0123456789")


class Index:
    """All phrases and readings that lines are searched for, each once."""

    def __init__(self, known: Knowledge) -> None:
        listed = [
            phrase
            for entry in known.entries
            if entry.when is not None
            for phrase in known.phrases(
                [*entry.when.lines, *entry.when.lines_any, *entry.when.lines_none, *entry.when.quote]
            )
        ]
        self.phrases: tuple[Phrase, ...] = tuple(dict.fromkeys(listed))
        self.readings: tuple[Reading, ...] = known.readings
        self.death = known.phrases(["@death"])
        self.fatal = known.phrases(["@fatal"])
        self.stopped = known.phrases(["@stopped"])
        sought = (*self.phrases, *self.death, *self.fatal, *self.stopped)
        heads = {phrase.pieces[0] for phrase in sought} | {reading.head.lower() for reading in self.readings}
        self._heads = tuple(sorted({head.translate(_NO_DIGITS) for head in heads}))
        self._silent: set[str] = set()

    def says_nothing(self, lowered: str) -> bool:
        """Whether a line, in lower case, surely holds none of them.

        A log has few kinds of lines, which differ in their numbers. A line without its digits holds every phrase
        without its digits that the line holds; the kinds that hold none are remembered.
        """
        shape = lowered.translate(_NO_DIGITS)
        if shape in self._silent:
            return True
        for head in self._heads:
            if head in shape:
                return False
        if len(self._silent) < _MOST_SHAPES and len(shape) <= LONGEST_QUOTE:
            self._silent.add(shape)
        return True


class Start:
    """Follows one start.

    Args:
        number: which start of the log, from 1.
        index: what to look for.

    Attributes:
        first_line: number of its first line.
        last_line: number of its last line so far.
        values: what lines said, by name ("block-size": 2160.0).
        seen: by phrase, the first line that held it.
        failures: in the order of the log.
        last_death: number of the last line that says that a process of the engine ended.
        stopped: the line that says that somebody ended it in good order.
        stage_quote: the line that began the newest stage.
        tail: the last lines.
    """

    def __init__(self, number: int, index: Index) -> None:
        self.number = number
        self.first_line = 0
        self.last_line = 0
        self.values: dict[str, Value] = {}
        self.value_quotes: dict[str, Quote] = {}
        self.seen: dict[str, Quote] = {}
        self.failures: list[Seen] = []
        self.last_death = 0
        self.stopped: Quote | None = None
        self.stage_quote: Quote | None = None
        self.tail: deque[Quote] = deque(maxlen=_TAIL)
        self.reports = Reports()
        self.bar = ""
        self._index = index
        self._late: deque[Seen] = deque(maxlen=_MOST_FAILURES)
        self._ladders: dict[tuple[str, str], StartUp] = {}
        self._tracebacks: dict[tuple[str, str], TracebackReader] = {}
        self._progress: dict[tuple[str, str], int] = {}
        self._answered = 0
        self._clocks: list[str] = []

    def feed(self, line: LogLine) -> None:
        """Take its next line."""
        self.first_line = self.first_line or line.number
        self.last_line = line.number
        key = self._key(line)
        if line.clock:
            self._clocks = [*self._clocks[:1], line.clock]
        self._follow(key, line)
        reader = self._tracebacks.get(key)
        if reader is None:
            reader = self._tracebacks[key] = TracebackReader()
        if failure := reader.feed(line):
            self._note(failure, key)
        self._search(line, key)
        if self.reports.feed(line.message):
            self._answered = line.number
        self.tail.append(Quote(line.number, line.text[:LONGEST_QUOTE]))

    def answered(self, line_number: int) -> None:
        """A line says that a request was answered well."""
        self.first_line = self.first_line or line_number
        self.last_line = line_number
        self._answered = line_number
        self.reports.served += 1

    def close(self) -> None:
        """No more lines come."""
        for key, reader in self._tracebacks.items():
            if failure := reader.close():
                self._note(failure, key)
        self.failures = sorted([*self.failures, *self._late], key=lambda seen: seen.failure.first_line)
        self._late.clear()
        self.values |= self.reports.values()
        if (seconds := self.seconds()) is not None:
            self.values["seconds"] = seconds
        sequences, drafts = self.values.get("max-num-seqs"), self.values.get("draft-tokens")
        if isinstance(sequences, float) and isinstance(drafts, float):
            self.values["decode-width"] = sequences * (drafts + 1)

    @property
    def stage(self) -> Stage:
        """The furthest that any process came."""
        stages = [ladder.stage for ladder in self._ladders.values()]
        if self._answered:
            return Stage.READY
        return max(stages, key=_ORDER.__getitem__, default=Stage.LAUNCH)

    def stage_at(self, node: str) -> Stage:
        """The furthest that a process of one container, pod or host came."""
        stages = [ladder.stage for (where, _), ladder in self._ladders.items() if where == node]
        return max(stages, key=_ORDER.__getitem__, default=Stage.LAUNCH)

    def seconds(self) -> float | None:
        """Between the first and the last line with a time, plus what a progress bar at the end counted."""
        if len(self._clocks) < 2:
            return None
        try:
            first, last = (datetime.strptime(f"2000-{text}", "%Y-%m-%d %H:%M:%S") for text in self._clocks)  # noqa: DTZ007  the log has no zone
        except ValueError:
            return None
        if last < first:
            last += timedelta(days=366)  # over New Year; 2000 has a 29 February
        return (last - first).total_seconds() + _bar_seconds(self.bar)

    def survived(self, seen: Seen) -> bool:
        """Whether the engine lived on after a failure.

        It was only warned of; or the same process came further, or requests were answered after it, and nothing says
        that the engine ended. What is said while an engine ends because it was told to is no failure either.
        """
        failure = seen.failure
        if failure.level in ("WARNING", "INFO", "DEBUG"):
            return True
        if self.stopped is not None and self.stopped.line < failure.first_line:
            return True
        announced = any(phrase.is_in(failure.before.lower()) for phrase in self._index.death)
        if announced or self.last_death >= failure.first_line:
            return False
        moved = self._progress.get((failure.node, failure.process), 0)
        if max(moved, self._answered) > failure.last_line:
            return True
        return seen.ready and _is_front(failure.process)

    def _key(self, line: LogLine) -> tuple[str, str]:
        key = (line.node, line.process)
        return key if key in self._ladders or len(self._ladders) < _MOST_PROCESSES else ("", "")

    def _follow(self, key: tuple[str, str], line: LogLine) -> None:
        ladder = self._ladders.get(key)
        if ladder is None:
            ladder = self._ladders[key] = StartUp()
        before = ladder.stage
        ladder.feed(line, float(line.number))
        if ladder.detail and "%|" in line.message:
            self.bar = line.message[:LONGEST_QUOTE]
            self.stage_quote = self.stage_quote or Quote(line.number, line.text[:LONGEST_QUOTE])
        elif line.clock:
            self.bar = ""
        if ladder.stage is not before:
            self._progress[key] = line.number
            if _ORDER[ladder.stage] >= _ORDER[self.stage]:
                self.stage_quote = Quote(line.number, line.text[:LONGEST_QUOTE])

    def _search(self, line: LogLine, key: tuple[str, str]) -> None:
        message = line.message
        lowered = message.lower()
        if self._index.says_nothing(lowered):
            return
        for phrase in self._index.phrases:
            if phrase.pieces[0] in lowered and phrase.is_in(lowered):
                old = self.seen.get(phrase.text)
                self.seen[phrase.text] = (
                    Quote(line.number, _around(line.text, phrase.pieces[0]))
                    if old is None
                    else Quote(old.line, old.text, old.count + 1)
                )
        for reading in self._index.readings:
            if reading.head in message:
                self._read(reading, line)
        if self.stopped is None and _any(self._index.death, lowered):
            self.last_death = line.number
        if _any(self._index.fatal, lowered):
            self._note(_one_line(line), key)
        if self.stopped is None and _any(self._index.stopped, lowered):
            self.stopped = Quote(line.number, line.text[:LONGEST_QUOTE])

    def _read(self, reading: Reading, line: LogLine) -> None:
        for name, value in reading.read(line.message).items():
            kept = keep(reading.keep, self.values.get(name), value)
            if kept is value:
                self.value_quotes[name] = Quote(line.number, _around(line.text, reading.head.lower()))
            self.values[name] = kept

    def _note(self, failure: Failure, key: tuple[str, str]) -> None:
        stage = self._stage_of(key)
        seen = Seen(failure, stage, ready=self.stage is Stage.READY)
        if len(self.failures) < _MOST_FAILURES:
            self.failures.append(seen)
        else:
            self._late.append(seen)

    def _stage_of(self, key: tuple[str, str]) -> Stage:
        """Where a process stood: its own ranks may be ahead of it, its engine and its server may not."""
        node, process = key
        kind = _kind(process)
        stages = [
            ladder.stage
            for (other_node, other), ladder in self._ladders.items()
            if (other_node, other) == key or (other_node == node and _kind(other) != kind)
        ]
        return max(stages, key=_ORDER.__getitem__, default=Stage.LAUNCH)


def _around(text: str, piece: str) -> str:
    """A long line, cut to its beginning and the part with a piece (in lower case) in it."""
    at = text.lower().find(piece)
    if len(text) <= _SHORT_QUOTE or at < _SHORT_QUOTE // 2:
        return text[:LONGEST_QUOTE]
    return f"{text[:_BEGINNING]} … {text[at : at + LONGEST_QUOTE - _BEGINNING]}"


def _kind(process: str) -> str:
    return _RANK.sub("", process)


def _is_front(process: str) -> bool:
    return not process or process.lower().startswith("apiserver")


def _any(phrases: Iterable[Phrase], lowered: str) -> bool:
    return any(phrase.pieces[0] in lowered and phrase.is_in(lowered) for phrase in phrases)


def _one_line(line: LogLine) -> Failure:
    return Failure(
        line.number,
        line.number,
        line.node,
        line.process,
        "ERROR",
        raised=(Raised(line.number, line.message[:2000].strip()),),
    )


_ELAPSED: Final = re.compile(r"\[(?:(\d{1,3}):)?(\d{1,2}):(\d\d)<")


def _bar_seconds(bar: str) -> float:
    """What a tqdm bar says it took so far: "[03:56<09:33, 1.81it/s]"."""
    found = _ELAPSED.search(bar)
    return float(found[1] or 0) * 3600 + float(found[2]) * 60 + float(found[3]) if found else 0.0
