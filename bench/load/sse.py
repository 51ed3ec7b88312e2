"""Server-sent events from bytes, as they arrive.

Follows "9.2.6 Interpreting an event stream" of the WHATWG HTML standard: lines end in CRLF, LF or CR, several `data`
lines of one event are joined by a newline, comments and unknown fields are skipped, an event without data is none, and
what is not ended by an empty line when the stream ends is dropped. Only `data` is kept: no other field carries
anything in this protocol.
"""

from __future__ import annotations

from typing import Final

BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class SseParser:
    """Feed it the body as it comes; time is linear in the bytes, whatever the pieces and however long a line."""

    __slots__ = ("_after_cr", "_data", "_partial", "_started")

    def __init__(self) -> None:
        self._partial: list[bytes] = []  # of a line whose end has not come
        self._data: list[bytes] = []  # `data` lines of the event that is open
        self._after_cr = False  # the last byte was CR: an LF that follows belongs to it
        self._started = False

    def feed(self, piece: bytes) -> list[bytes]:
        """The data of every event that this piece completes, in order, not decoded."""
        if self._after_cr and piece:
            self._after_cr = False
            if piece[0] == 0x0A:
                piece = piece[1:]
        if not piece:
            return []
        events: list[bytes] = []
        lines = piece.splitlines(keepends=True)  # bytes split at CRLF, LF and CR only
        if self._partial:
            self._partial.append(lines[0])
            if not _is_ended(lines[0]):
                return events
            lines[0] = b"".join(self._partial)
            self._partial.clear()
        if not _is_ended(lines[-1]):
            self._partial.append(lines.pop())
        elif piece[-1] == 0x0D:
            self._after_cr = True
        for line in lines:
            self._line(line, events)
        return events

    def _line(self, line: bytes, events: list[bytes]) -> None:
        if not self._started:
            self._started = True
            line = line.removeprefix(BYTE_ORDER_MARK)
        if line.startswith(b"data:"):
            value = line[5:].rstrip(b"\r\n")
            self._data.append(value[1:] if value.startswith(b" ") else value)
        elif line in (b"\n", b"\r\n", b"\r"):
            if self._data:
                events.append(self._data[0] if len(self._data) == 1 else b"\n".join(self._data))
                self._data.clear()
        elif line.rstrip(b"\r\n") == b"data":
            self._data.append(b"")


def _is_ended(line: bytes) -> bool:
    return line[-1] in (0x0A, 0x0D)
