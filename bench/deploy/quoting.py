"""Any text as one value of a YAML file or one word of a shell script.

A recipe may be anybody's: a title with line ends, a flag with quotes, a value that ends a string and begins a command.
None of it may become structure. Each function gives ASCII on one line, so that it does not matter where in a file it
stands or which encoding a reader assumes.
"""

from __future__ import annotations

import re
import shlex
from typing import Final

from bench.errors import UsageError

_NAMED: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_TELLABLE: Final = re.compile(r"[\x01-\ud7ff\ue000-\U0010ffff]*")
"""No argument, environment variable or file name can hold NUL; a lone surrogate is no text in any encoding."""


class Quoted(str):
    """Text that may be put into a file as it is: one of the functions here has made it."""

    __slots__ = ()


def yaml_string(text: str) -> Quoted:
    """A double-quoted scalar (YAML 1.1 and 1.2, and JSON but for the two longer escapes).

    Raises:
        UsageError: no such value can be passed on.
    """
    _refuse_untellable(text)
    return Quoted(f'"{"".join(map(_yaml_character, text))}"')


def yaml_lines(text: str, indent: int) -> Quoted:
    """The same scalar, for text of many lines: each has a line of its own, so that people can read it.

    Args:
        text: anything.
        indent: spaces before each line; more than its key has.

    Raises:
        UsageError: no such value can be passed on.
    """
    _refuse_untellable(text)
    # A backslash at the end of a line joins the next one to it, without the spaces that this one begins with; so the
    # first space of the text itself is escaped.
    joined = "\\\n" + " " * indent
    lines = ("".join(map(_yaml_character, line)) for line in text.split("\n"))
    kept = (f"\\{line}" if line.startswith(" ") else line for line in lines)
    return Quoted(f'"{joined}' + f"\\n{joined}".join(kept) + '"')


def kubernetes_string(text: str) -> Quoted:
    """A scalar for `command`, `args` or the `value` of an `env`, in which Kubernetes replaces `$(NAME)`.

    There `$$` stands for one dollar sign (API reference, Container v1 core). Without it a flag that says
    `$(VLLM_API_KEY)` would show the key on a command line.

    Raises:
        UsageError: no such value can be passed on.
    """
    return yaml_string(text.replace("$", "$$"))


def shell_word(text: str) -> Quoted:
    """One word for bash: bare, in single quotes, or in `$'...'` where something is not printable ASCII.

    Raises:
        UsageError: no such value can be passed on.
    """
    _refuse_untellable(text)
    if text.isascii() and text.isprintable():
        return Quoted(shlex.quote(text))
    return Quoted(f"$'{''.join(map(_shell_byte, text.encode()))}'")


def comment(text: str) -> Quoted:
    """Text for the rest of a line after `#`: what is not printable ASCII is told as Python writes it."""
    return Quoted("".join(c if c.isascii() and c.isprintable() else ascii(c)[1:-1] for c in text))


def _refuse_untellable(text: str) -> None:
    if _TELLABLE.fullmatch(text) is None:
        raise UsageError(
            f"the recipe holds a value that no program can be given: {text!a}.",
            remedy="Take the NUL (or the lone surrogate) out of it.",
        )


def _yaml_character(character: str) -> str:
    code = ord(character)
    if character in _NAMED:
        return _NAMED[character]
    if 0x20 <= code <= 0x7E:
        return character
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _shell_byte(byte: int) -> str:
    character = chr(byte)
    if character in "'\\":
        return f"\\{character}"
    return character if 0x20 <= byte <= 0x7E else f"\\x{byte:02x}"
