"""What the client's pod does before it measures: `python -m bench.deploy.client_start URL`.

It puts the user's signing key in place, if the cluster's Secret has one, and waits until the engine answers. A Secret's
files belong to root, and the client takes no key that others could have written.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from bench.engine.discovery import is_healthy
from bench.engine.external import server_address
from bench.errors import Exit, StreamproofError
from bench.report.keys import PRIVATE_NAME, keys_folder

_LOOK_EVERY_S: Final = 2.0
_TELL_EVERY_S: Final = 60.0


def wait_for(
    base_url: str,
    *,
    timeout_s: float,
    healthy: Callable[[str], bool] = is_healthy,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], object] = time.sleep,
) -> None:
    """Returns when the engine answers that it is well.

    Args:
        base_url: scheme, host and port.
        timeout_s: it has failed when it takes longer.
        healthy: asks it.
        clock: seconds, monotonic.
        pause: waits so many seconds.

    Raises:
        StreamproofError: it took too long.
    """
    began = clock()
    told = -1
    while not healthy(base_url):
        waited = clock() - began
        if waited >= timeout_s:
            raise StreamproofError(
                f"no engine answers at {base_url} after {waited:,.0f} s.",
                remedy="kubectl describe its pod, and read its log: kubectl logs POD | streamproof doctor -",
            )
        if int(waited // _TELL_EVERY_S) > told:
            told = int(waited // _TELL_EVERY_S)
            sys.stderr.write(f"waiting for the engine at {base_url}: {waited:,.0f} of at most {timeout_s:,.0f} s\n")
            sys.stderr.flush()
        pause(_LOOK_EVERY_S)


def place_key(given: Path, folder: Path) -> bool:
    """Copies the signing key to where the client looks for it, readable by this user alone.

    Args:
        given: the Secret's file; it need not be there.
        folder: the user's keys.

    Returns:
        Whether there was one.
    """
    if not given.is_file():
        return False
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    target = folder / PRIVATE_NAME
    target.touch(mode=0o600)
    target.write_bytes(given.read_bytes())
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="client_start", description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--timeout-s", type=float, required=True)
    parser.add_argument("--key", type=Path, required=True)
    asked = parser.parse_args(arguments)
    try:
        if not place_key(asked.key, keys_folder()):
            sys.stderr.write("the Secret has no signing key: the report gets one of this job alone\n")
        wait_for(server_address(asked.url), timeout_s=asked.timeout_s)
    except StreamproofError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except OSError as error:
        sys.stderr.write(f"error: the signing key cannot be put in place: {error}\n")
        return Exit.FAILURE
    return Exit.OK


if __name__ == "__main__":
    sys.exit(main())
