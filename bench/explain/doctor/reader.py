"""Reads a log once, line by line, and cuts it into engine starts. Says which server wrote it."""

from __future__ import annotations

import re
from collections import Counter, deque
from typing import TYPE_CHECKING, Final

from bench.engine.log_lines import LineSplitter, LogLine, parse_text, plain_text
from bench.engine.stages import Stage
from bench.explain.doctor.envelope import open_envelope
from bench.explain.doctor.start import Index, Start

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench.explain.doctor.knowledge import Knowledge, Server
    from bench.explain.doctor.phrases import Phrase

MOST_STARTS: Final = 12
"""Starts kept: the first half from the beginning, the others from the end. A crash loop has thousands, all alike."""

_ANSWER: Final = re.compile(r'"POST /[^"]{1,300} HTTP/1\.[01]" 2\d\d')
_RAW_ANSWER: Final = re.compile(_ANSWER.pattern.encode())
_ANSWERED: Final = "a request was answered"
"""Stands for such a line. Most of a long log is these: they are counted, and not looked at any further."""


class LogReader:
    """Takes the bytes of one log.

    Attributes:
        lines: of the log.
        starts_seen: starts in the log; `starts` keeps `MOST_STARTS` of them.
        first: the log's first lines, to quote where nothing else is known.
    """

    def __init__(self, known: Knowledge) -> None:
        self.lines = 0
        self.starts_seen = 0
        self.first: list[str] = []
        self._known = known
        self._index = Index(known)
        self._booted = known.phrases(["@booted"])
        self._vllm = known.phrases(["@vllm"])
        self._splitter = LineSplitter(self._parse)
        self._early: list[Start] = []
        self._late: deque[Start] = deque(maxlen=MOST_STARTS // 2)
        self._current: Start | None = None
        self._servers: Counter[str] = Counter()
        self._vllm_lines = 0

    @property
    def starts(self) -> list[Start]:
        """The starts that were kept, in order."""
        return [*self._early, *self._late]

    @property
    def is_vllm(self) -> bool:
        """Whether vLLM wrote it, or what runs vLLM."""
        return self._vllm_lines > 0

    @property
    def other_server(self) -> Server | None:
        """The server that wrote it, if another than vLLM did."""
        if not self._servers:
            return None
        name = self._servers.most_common(1)[0][0]
        return next(server for server in self._known.servers if server.name == name)

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        for line in self._splitter.feed(data):
            self._take(line)

    def close(self) -> None:
        """No more bytes come."""
        for line in self._splitter.flush():
            self._take(line)
        if self._current is not None:
            self._end(self._current)
            self._current = None

    def _parse(self, number: int, raw: bytes) -> LogLine:
        self.lines = number
        if self._vllm_lines and b'" 2' in raw and _RAW_ANSWER.search(raw):
            return LogLine(number, _ANSWERED, "", "", "", _ANSWERED)
        node, text = open_envelope(plain_text(raw))
        return parse_text(number, text, node=node)

    def _take(self, line: LogLine) -> None:
        if self._current is not None and self._is_answer(line):
            self._current.answered(line.number)
            return
        lowered = line.message.lower()
        if len(self.first) < 5:
            self.first.append(line.text[:200])
        if (line.clock and line.source) or any(phrase.is_in(lowered) for phrase in self._vllm):
            self._vllm_lines += 1
        elif self._vllm_lines == 0:
            self._note_server(line.text.lower())
        if self._current is None or self._begins(line, lowered, self._current):
            self._begin()
        if self._current is not None:
            self._current.feed(line)

    def _is_answer(self, line: LogLine) -> bool:
        """The lines of one piece are all parsed before the first is taken: not all are marked by then."""
        if line.message == _ANSWERED:
            return True
        return self._vllm_lines > 0 and '" 2' in line.text and _ANSWER.search(line.text) is not None

    def _note_server(self, lowered: str) -> None:
        for server in self._known.servers:
            if _holds(server.phrases, lowered):
                self._servers[server.name] += 1

    def _begins(self, line: LogLine, lowered: str, current: Start) -> bool:
        """Whether this is another start's first line: a banner after a start that got beyond its own, or failed."""
        if not _holds(self._booted, lowered):
            return False
        came_far = current.stage_at(line.node) not in (Stage.LAUNCH, Stage.CONFIG)
        return came_far or current.last_death > 0

    def _begin(self) -> None:
        if self._current is not None:
            self._end(self._current)
        self.starts_seen += 1
        self._current = Start(self.starts_seen, self._index)

    def _end(self, start: Start) -> None:
        start.close()
        if len(self._early) < MOST_STARTS // 2:
            self._early.append(start)
        else:
            self._late.append(start)


def _holds(phrases: Iterable[Phrase], lowered: str) -> bool:
    return any(phrase.pieces[0] in lowered and phrase.is_in(lowered) for phrase in phrases)
