"""`python -m bench`: the command line."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.text import Text

from bench.cli import app
from bench.errors import Exit, StreamproofError


def main() -> None:
    """Runs one command; an error is one message with its remedy on standard error, and an exit code for scripts."""
    try:
        app(prog_name="streamproof", standalone_mode=True)
    except StreamproofError as error:
        console = Console(stderr=True, highlight=False)
        console.print(Text.assemble(("error: ", "bold red"), error.message))
        if error.remedy:
            console.print(Text.assemble(("  do: ", "bold"), error.remedy))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)


if __name__ == "__main__":
    main()
