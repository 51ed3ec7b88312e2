"""Lock files in the form of requirements.txt, as blocks that can be taken or left.

Every package of a lock is one block: a line that begins with its name, hashes and comments indented below. A package
can have several, with markers that exclude each other.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from bench.bundle.hosts import normalized
from bench.errors import StreamproofError

if TYPE_CHECKING:
    from collections.abc import Container

_HEAD: Final = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[^\s;\\]+)")


def blocks(lock: str) -> dict[str, list[str]]:
    """A lock's blocks by normalized name.

    Raises:
        StreamproofError: a line of another form: nothing of a lock is skipped in silence.
    """
    found: dict[str, list[str]] = {}
    last: list[str] | None = None
    for number, line in enumerate(lock.splitlines(), 1):
        if line.startswith("#") or not line.strip():
            continue
        if line[0].isspace():
            if last is None:
                raise _not_a_lock(number, line)
            last[-1] += line + "\n"
            continue
        head = _HEAD.match(line)
        if head is None:
            raise _not_a_lock(number, line)
        last = found.setdefault(normalized(head["name"]), [])
        last.append(line + "\n")
    return found


def without(lock: str, names: Container[str]) -> str:
    """The lock without some packages (normalized names)."""
    return "".join(block for name, taken in blocks(lock).items() if name not in names for block in taken)


def _not_a_lock(number: int, line: str) -> StreamproofError:
    return StreamproofError(
        f"line {number} of the lock is not name==version with hashes: {line[:120]!r}",
        remedy="Make the lock again, as the .in file beside it says.",
    )
