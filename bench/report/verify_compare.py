"""Where two reports differ, value by value."""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

RELATIVE_TOLERANCE: Final = 1e-9
"""Between floats that mean the same: another order of summation, in another library version, moves the last digits."""
SHOWN: Final = 10
"""Differences named; a report of another run differs in hundreds."""


def differences(stored: object, computed: object) -> list[str]:
    """Names the first differences between two JSON values, each as "where: stored, computed again"."""
    return list(islice(_walk("", stored, computed), SHOWN))


def _walk(where: str, stored: Any, computed: Any) -> Iterator[str]:  # noqa: ANN401  any JSON value
    if isinstance(stored, dict) and isinstance(computed, dict):
        for key in sorted(stored.keys() | computed.keys()):
            place = f"{where}.{key}" if where else key
            if key not in computed:
                yield f"{place} should not be there"
            elif key not in stored:
                yield f"{place} is missing"
            else:
                yield from _walk(place, stored[key], computed[key])
    elif isinstance(stored, list) and isinstance(computed, list):
        if len(stored) != len(computed):
            yield f"{where} has {len(stored)} entries; computed again: {len(computed)}"
        for index, (one, other) in enumerate(zip(stored, computed, strict=False)):
            yield from _walk(f"{where}[{index}]", one, other)
    elif not _same(stored, computed):
        yield f"{where} is {_short(stored)}; computed again: {_short(computed)}"


def _same(stored: object, computed: object) -> bool:
    if isinstance(stored, bool) or isinstance(computed, bool):
        return stored is computed
    if isinstance(stored, int | float) and isinstance(computed, int | float):
        return math.isclose(stored, computed, rel_tol=RELATIVE_TOLERANCE)
    return type(stored) is type(computed) and stored == computed


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:120]}..."
