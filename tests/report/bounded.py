"""`python -m tests.report.bounded MEMORY_MIB CPU_S ARGUMENT...`: the command line with so much memory and time.

What wants more memory fails, and the process is killed by SIGXCPU when the time is up.
"""

from __future__ import annotations

import resource
import sys


def main() -> None:
    """Sets the bounds, then is the command line."""
    memory, seconds = int(sys.argv[1]) << 20, int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    del sys.argv[1:3]
    from bench.__main__ import main as command_line  # noqa: PLC0415  within the bounds

    command_line()


if __name__ == "__main__":
    main()
