"""A stand-in for an engine of several processes, some of which do not want to go. Run it as a script.

    standin_family.py FIFO [--stubborn] [--exit STATUS]

Four processes: the first one, a child, a grandchild, and an orphan in a session of its own. Each opens the FIFO for
writing and keeps it open until it ends: a reader sees one line a process, and the end of the file once all are gone.
"""

from __future__ import annotations

import os
import signal
import sys


def join(fifo: str, role: str) -> None:
    writing = os.open(fifo, os.O_WRONLY)
    os.write(writing, f"{role} {os.getpid()}\n".encode())


def main() -> None:
    fifo, *options = sys.argv[1:]
    if "--stubborn" in options:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        join(fifo, "child")
        if os.fork() == 0:
            join(fifo, "grandchild")
        elif os.fork() == 0:
            os.setsid()
            if os.fork():
                os._exit(0)
            join(fifo, "orphan")
    else:
        join(fifo, "engine")
        if "--exit" in options:
            started = os.open(f"{fifo}.go", os.O_RDONLY)  # until the test says so
            os.read(started, 1)
            os._exit(int(options[options.index("--exit") + 1]))
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
