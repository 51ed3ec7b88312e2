"""Bytes from the kernel to our stamp, with nothing in between; parsing comes after.

Engines emit one step's tokens for all running requests at once, so many sockets become readable together. Were each
reply parsed as it is read, the last of sixty would be stamped a millisecond late. So a turn of the loop first reads
and stamps all of them, then parses.

Linux also says when the kernel received the bytes (SO_TIMESTAMPNS, socket(7); for TCP since 4.17, on a read with
ancillary data). asyncio's read has no room for it, but a peek right before it has, at some two microseconds; so every
fourth read is preceded by one. The difference to our stamp certifies, in every run, that our stamps are not late.
With TLS the bytes pass through OpenSSL first, and the kernel's stamp cannot be had: then the certificate is missing,
not zero.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
import time
from array import array
from typing import Final, Protocol

BUFFER_BYTES: Final = 256 * 1024
SO_TIMESTAMPNS: Final = 35
"""Linux, asm-generic/socket.h; Python's socket module does not name it."""

STAMPED_READS: Final = 4
"""One read in so many is certified: still thousands in a window, whichever connections they fall on."""

_TIMESPEC: Final = struct.Struct("@ll")
_ANCILLARY_BYTES: Final = socket.CMSG_SPACE(_TIMESPEC.size)


class Receiver(Protocol):
    """Takes what one connection received."""

    def take(self, data: bytes, monotonic: float) -> None:
        """Bytes, and when they were read (seconds of `time.monotonic`)."""
        ...


class Wire:
    """What the connections of one client share: the buffer they read into, and the pieces that wait to be parsed.

    Attributes:
        buffer: every connection reads into it; its content is copied out before the next read.
        delays: seconds from the kernel's stamp to ours, one per certified read.
    """

    __slots__ = ("_loop", "_pending", "_reads", "buffer", "delays")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._pending: list[tuple[Receiver, bytes, float]] = []
        self._reads = 0
        self.buffer = memoryview(bytearray(BUFFER_BYTES))
        self.delays = array("d")

    def certified(self) -> bool:
        """Whether the read that is next is one that the kernel is asked about."""
        self._reads += 1
        return self._reads % STAMPED_READS == 0

    def received(self, receiver: Receiver, length: int, kernel_s: float | None) -> None:
        """The buffer holds `length` new bytes. Stamps them; they are parsed when all that is readable was read.

        Args:
            receiver: whose they are.
            length: how many.
            kernel_s: Unix time at which the kernel received the first of them; None where it does not say.
        """
        monotonic = time.monotonic()
        if kernel_s is not None:
            self.delays.append(max(0.0, time.time() - kernel_s))
        if not self._pending:
            self._loop.call_soon(self.flush)
        self._pending.append((receiver, bytes(self.buffer[:length]), monotonic))

    def flush(self) -> None:
        """Parse everything that was read."""
        pending = self._pending
        if pending:
            self._pending = []
            for receiver, data, monotonic in pending:
                receiver.take(data, monotonic)


def stamp_arrivals(sock: socket.socket) -> bool:
    """Ask the kernel to stamp what this socket receives; whether it will."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    except OSError:
        return False
    return True


def kernel_stamp(sock: socket.socket) -> float | None:
    """When the first byte that waits on this socket was received, in seconds of Unix time; None if not known.

    Raises:
        OSError: the connection has failed. The kernel reports that once: the read that follows will see a mere end.
    """
    try:
        _, ancillary, _, _ = sock.recvmsg(1, _ANCILLARY_BYTES, socket.MSG_PEEK)
    except BlockingIOError:
        return None
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS:
            seconds, nanoseconds = _TIMESPEC.unpack_from(data)
            return float(seconds) + float(nanoseconds) * 1e-9
    return None
