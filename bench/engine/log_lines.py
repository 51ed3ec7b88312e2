"""From bytes of an engine's log to lines: partial, coloured, huge or carriage-returned, whatever the engine writes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

LONGEST_LINE: Final = 16_384
"""Bytes kept of one line. vLLM prints its whole configuration in one; a runaway one must not fill our memory."""

_ESCAPE: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]"
)
"""Terminal control: CSI (colours, cursor), OSC (titles), two-character escapes (ECMA-48), bare control characters with
their eight-bit forms, and the marks of Unicode that turn the direction of writing or end a line."""

_PREFIX: Final = re.compile(
    r"""(?:\((?P<process>[^()]*?)\ pid=\d+(?:,\ ip=[^()]*)?\)\ ?)?  # (EngineCore pid=42); child processes only
        (?:(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL)
           (?::\s+                                                # uvicorn: "INFO:     text"
             |\ (?P<clock>\d\d-\d\d\ \d\d:\d\d:\d\d)                # vLLM: "INFO 11-30 00:42:04 [core.py:116] text",
              \ (?:\[(?P<source>[^\]]*)\]|(?P<old_source>\S+\.py:\d+\]))\ ?  # before 0.9: "... core.py:116] text"
           )
        )?""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of the log.

    Attributes:
        number: in the file, from 1; parts of a line that carriage returns separate share it.
        text: the line without terminal control and without blanks at its end.
        process: who wrote it ("EngineCore"); empty where the line does not say.
        level: "INFO", "WARNING", ...; empty where the line has none.
        source: file and line of the statement that wrote it ("core.py:116"); empty where the line does not say.
        message: `text` without those.
        clock: when it was written, "11-30 00:42:04"; empty where the line does not say.
        node: the container, pod or host that it came from; empty where nothing around the line says.
    """

    number: int
    text: str
    process: str
    level: str
    source: str
    message: str
    clock: str = ""
    node: str = ""


def plain_text(raw: bytes) -> str:
    """These bytes as text without terminal control. What is not UTF-8 becomes replacement characters."""
    return _ESCAPE.sub("", raw.decode("utf-8", errors="replace")).rstrip()


def parse_line(number: int, raw: bytes) -> LogLine:
    """The line that these bytes are."""
    return parse_text(number, plain_text(raw))


def parse_text(number: int, text: str, *, node: str = "") -> LogLine:
    """The line that this text is, as `plain_text` gives it."""
    prefix = _PREFIX.match(text)
    if prefix is None:  # pragma: no cover  every part of the pattern is optional: it matches the empty string
        raise AssertionError
    return LogLine(
        number=number,
        text=text,
        process=prefix["process"] or "",
        level=prefix["level"] or "",
        source=prefix["source"] or (prefix["old_source"] or "").rstrip("]"),
        message=text[prefix.end() :],
        clock=prefix["clock"] or "",
        node=node,
    )


class LineSplitter:
    r"""Cuts a byte stream into lines, at "\n" and (for progress bars) at "\r". Blank lines are counted, not returned.

    The same bytes give the same lines however they are cut into pieces.

    Args:
        parse: makes a line of its number and its bytes.
    """

    def __init__(self, parse: Callable[[int, bytes], LogLine] = parse_line) -> None:
        self._parse = parse
        self._number = 1
        self._open = bytearray()

    def feed(self, data: bytes) -> list[LogLine]:
        """The lines that these bytes complete."""
        lines: list[LogLine] = []
        for piece in re.findall(rb"[^\r\n]+|[\r\n]", data):
            if piece not in (b"\r", b"\n"):
                self._keep(piece)
                continue
            lines += self.flush()
            if piece == b"\n":
                self._number += 1
        return lines

    def flush(self) -> list[LogLine]:
        """What stands open at the end, as a last line (at most one)."""
        raw, self._open = bytes(self._open), bytearray()
        line = self._parse(self._number, raw)
        return [line] if line.text else []

    def _keep(self, piece: bytes) -> None:
        self._open += piece[: LONGEST_LINE - len(self._open)]
