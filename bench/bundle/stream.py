"""What Docker sends in pieces, read as a file."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Stream(io.RawIOBase):
    """A file that can only be read, from its beginning to its end.

    Args:
        pieces: its content, in pieces of any size.
    """

    def __init__(self, pieces: Iterable[bytes]) -> None:
        super().__init__()
        self._pieces: Iterator[bytes] = iter(pieces)
        self._left = b""

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # the base takes any writable buffer
        """The next bytes, as many as are there of one piece; 0 at the end."""
        while not self._left:
            try:
                self._left = next(self._pieces)
            except StopIteration:
                return 0
        taken = self._left[: len(buffer)]
        buffer[: len(taken)] = taken
        self._left = self._left[len(taken) :]
        return len(taken)
