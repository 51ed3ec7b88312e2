"""A client that dies at its Nth write to stable storage, as by a power cut: dying_client.py N ARGUMENTS."""

import os
import sys
from typing import Any

from bench.__main__ import main

left = int(sys.argv.pop(1))
synchronize = os.fsync


def dying(descriptor: Any) -> None:
    global left  # noqa: PLW0603  a counter of this script
    left -= 1
    if left == 0:
        os._exit(9)
    synchronize(descriptor)


os.fsync = dying  # type: ignore[assignment]
main()
