"""Text of a report that somebody hostile may have written, on its way to a terminal.

A terminal obeys what it is sent: escape sequences recolour, overwrite, retitle and in some emulators answer as if the
user had typed (CVE-2003-0063 and its many successors); characters that turn the direction of writing show one name and
mean another (CVE-2021-42574). An honest report holds neither.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_COMMANDS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters of ASCII and of Latin-1, without tab and end of line; what ends a line or turns its direction."""


def printable(text: str, most: int) -> str:
    """The text in one line, with every character escaped that is not to be seen, and cut off if it is long.

    Args:
        text: anything, lone surrogates too.
        most: characters of the result, of which the last three tell that something was cut off.
    """
    cut = text[: most + 1]
    shown = "".join(character if character.isprintable() else ascii(character)[1:-1] for character in cut)
    return shown if len(shown) <= most else f"{shown[: most - 3]}..."


def commands_in(value: Any) -> str | None:  # noqa: ANN401  any JSON value
    """The first text in a value that holds what a terminal obeys, keys of objects included; None where none does.

    Args:
        value: JSON or TOML as Python has it, no deeper than Python's stack.
    """
    return next((text for text in _texts(value) if _COMMANDS.search(text)), None)


def _texts(value: Any) -> Iterator[str]:  # noqa: ANN401  any JSON value
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts(key)
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)
