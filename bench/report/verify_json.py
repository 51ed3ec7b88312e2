"""Reads JSON that somebody hostile may have written.

Python's parser takes more than JSON (NaN), keeps the last of two equal keys in silence, and turns 1e999 into infinity.
Two readers could then see two different reports behind one digest, so all of these are refused.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any, Final, NoReturn

DEPTH_LIMIT: Final = 64
"""Levels of nesting. Ours need 8; a parser's stack may break at some hundreds."""
INTEGER_BITS: Final = 63
"""Of a whole number: more than that, others read as another number, and Python itself cannot make a float of."""
_DIGITS_LIMIT: Final = 20
"""Of a whole number, its sign included: nothing longer is even converted."""


class HostileJsonError(ValueError):
    """Not JSON as we write it; the message says why, in words for people."""


def strict_loads(raw: bytes) -> Any:  # noqa: ANN401  any JSON value
    """Parses one JSON value.

    Args:
        raw: UTF-8, already limited in size by the caller.

    Raises:
        HostileJsonError: not UTF-8, not JSON, a repeated key, a number that is gigantic or not finite, or nested too
            deep.
    """
    try:
        value = json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_object,
            parse_float=_finite,
            parse_int=_whole,
            parse_constant=_constant,
        )
        if raw.count(b"[") + raw.count(b"{") > DEPTH_LIMIT:
            _check_depth(value)
        if b"\\u" in raw:
            json.dumps(value, ensure_ascii=False).encode()  # the escape \ud800 alone parses, but is no character
    except HostileJsonError:
        raise
    except RecursionError as error:
        raise HostileJsonError("it is nested too deep") from error
    except UnicodeDecodeError as error:
        raise HostileJsonError("it is not UTF-8") from error
    except UnicodeEncodeError as error:
        raise HostileJsonError("it holds half of a surrogate pair, which is no character") from error
    except ValueError as error:
        raise HostileJsonError(f"it is not JSON ({_first_line(error)})") from error
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        counted = Counter(key for key, _ in pairs)
        twice = counted.most_common(1)[0][0]
        raise HostileJsonError(f"the key {twice[:80]!r} stands in it twice")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise HostileJsonError(f"the number {text[:40]} is not finite")
    return number


def _whole(text: str) -> int:
    if len(text) > _DIGITS_LIMIT or (number := int(text)).bit_length() > INTEGER_BITS:
        raise HostileJsonError(f"the number {text[:40]}{'...' if text[40:] else ''} has more than {INTEGER_BITS} bits")
    return number


def _constant(name: str) -> NoReturn:
    raise HostileJsonError(f"it holds {name}, which is not a number")


def _check_depth(value: object) -> None:
    """Walks level by level, without recursion."""
    level: list[object] = [value]
    for _ in range(DEPTH_LIMIT):
        level = [
            child
            for parent in level
            if isinstance(parent, (dict, list))
            for child in (parent.values() if isinstance(parent, dict) else parent)
        ]
        if not level:
            return
    raise HostileJsonError(f"it is nested deeper than {DEPTH_LIMIT} levels")


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0][:120]
