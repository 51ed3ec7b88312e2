"""`python -m bench.peers`."""

from __future__ import annotations

import signal
import sys

from bench.errors import Exit, StreamproofError
from bench.peers.cli import app


def main() -> None:
    """Runs the command; an error is one message with its remedy, and an exit code for scripts.

    A termination is an interruption, also where a shell has the latter ignored: no tool and no server is left behind.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        app(prog_name="python -m bench.peers")
    except StreamproofError as error:
        sys.stderr.write(f"error: {error.message}\n  do: {error.remedy}\n")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)


if __name__ == "__main__":
    main()
