"""Reading what tools write: JSON of a known form, or one error that says what is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from bench.peers.tool import Triple, UnreadableError


def load_json(path: Path) -> Any:  # noqa: ANN401  whatever JSON holds
    """The JSON in a file.

    Raises:
        UnreadableError: no such file, or no JSON.
    """
    try:
        return orjson.loads(path.read_bytes())
    except OSError as error:
        raise UnreadableError(f"it left no {path.name}") from error
    except orjson.JSONDecodeError as error:
        raise UnreadableError(f"its {path.name} is no JSON: {error}") from error


def number(values: Any, *path: str) -> float:  # noqa: ANN401  as above
    """One number inside nested objects.

    Raises:
        UnreadableError: there is none at that path.
    """
    found = values
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise UnreadableError(f"its results have no number at {'.'.join(path)}")
    return float(found)


def triple(values: Any, path: tuple[str, ...], keys: tuple[str, str, str], *, scale: float = 1.0) -> Triple:  # noqa: ANN401
    """Three percentiles of one object, each multiplied by `scale` (1,000 makes milliseconds of seconds).

    Raises:
        UnreadableError: one is missing.
    """
    p50, p95, p99 = (number(values, *path, key) * scale for key in keys)
    return p50, p95, p99
