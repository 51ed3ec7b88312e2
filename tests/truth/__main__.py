"""`python -m tests.truth --port 0`: serve until SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from pathlib import Path

from bench.load.alarm import Alarm
from tests.truth.connection import Connection
from tests.truth.ledger import Ledger
from tests.truth.script import Script, load
from tests.truth.server import Server


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.truth", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one; the first line of output names it")
    parser.add_argument("--script", type=Path, default=None, help="JSON file, see tests/truth/script.py")
    parser.add_argument("--truth", type=Path, default=None, help="append what was done to this JSONL file")
    parser.add_argument("--core", type=int, default=None, help="run on this CPU core only")
    return parser.parse_args()


async def serve(script: Script, *, host: str, port: int, truth: Path | None) -> None:
    """Serve until SIGTERM or SIGINT; say where on stdout once connections are accepted."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    with Alarm() as alarm:
        server = Server(script, Ledger(truth), alarm)
        listener = await loop.create_server(lambda: Connection(server), host, port, backlog=4096)
        bound = listener.sockets[0].getsockname()[1]
        sys.stdout.write(f"listening on http://{host}:{bound}\n")
        sys.stdout.flush()
        await stop.wait()
        listener.close()
        for connection in list(server.connections):
            if connection.reply is not None:
                connection.reply.over("shutdown")
            connection.drop(reset=True)
        await asyncio.sleep(0)  # lets the transports close their sockets


def main() -> None:
    """Entry point."""
    arguments = _arguments()
    if arguments.core is not None:
        os.sched_setaffinity(0, {arguments.core})
    script = load(arguments.script)
    asyncio.run(serve(script, host=arguments.host, port=arguments.port, truth=arguments.truth))


if __name__ == "__main__":
    main()
