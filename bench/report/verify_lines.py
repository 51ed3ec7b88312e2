"""Looks at the text files of a report that somebody hostile may have made, before a parser does."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from bench.report import folder_files as files
from bench.report.verify_files import MEBIBYTE, Finding, RefusedError
from bench.report.verify_text import commands_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recipes.schema import Recipe

LINES_LIMIT: Final = 500_000
"""Of observations: eight GPUs, host and engine once a second, for half a day."""
LINE_LIMIT: Final = MEBIBYTE
"""Bytes: the longest of ours is a table of CUDA graphs, some 100 KB."""
DOTS_LIMIT: Final = 200
"""In one line of a recipe. A key of n parts takes `tomllib` time in n x n, so that one of a megabyte takes days."""
INTEGER_BITS: Final = 63
"""Of a number in a recipe: TOML's own limit, which `tomllib` does not keep."""

_MAY_COMMAND: Final = re.compile(
    rb"\\u(?:00[01789]|20[0-9])|\\[bfr]|[\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\x80-\xbf]|\xe2\x81[\xa0-\xaf]", re.IGNORECASE
)
"""What a line of JSON has somewhere when one of its texts holds what a terminal obeys."""


def check_observations(raw: bytes) -> None:
    """Looks at `observations.jsonl`.

    Raises:
        RefusedError: more or longer lines than a run leaves, or text that commands a terminal.
    """
    lines = raw.split(b"\n")
    if len(lines) > LINES_LIMIT:
        raise RefusedError(
            Finding(files.OBSERVATIONS, f"has {len(lines):,} lines; a report has at most {LINES_LIMIT:,}")
        )
    for number, line in enumerate(lines, start=1):
        if len(line) > LINE_LIMIT:
            reason = f"line {number} has {len(line):,} bytes; a report has none above {LINE_LIMIT:,}"
            raise RefusedError(Finding(files.OBSERVATIONS, reason))
        if _MAY_COMMAND.search(line):
            _refuse_commands(files.OBSERVATIONS, _loaded(line), f"line {number} ")


def check_recipe_text(raw: bytes) -> None:
    """Looks at `recipe.resolved.toml`.

    Raises:
        RefusedError: a key in it would take the parser too long.
    """
    for number, line in enumerate(raw.split(b"\n"), start=1):
        if line.count(b".") > DOTS_LIMIT:
            reason = f"line {number} has more than {DOTS_LIMIT} dots; no key of a recipe has as many parts"
            raise RefusedError(Finding(files.RECIPE, reason))


def check_values(recipe: Recipe, environment: Mapping[str, Any]) -> None:
    """Looks at what was read.

    Raises:
        RefusedError: text that commands a terminal, or a number that no other program could read.
    """
    values = recipe.model_dump(mode="json")
    _refuse_commands(files.RECIPE, values, "")
    _refuse_commands(files.ENVIRONMENT, dict(environment), "")
    if _has_gigantic(values):
        raise RefusedError(Finding(files.RECIPE, f"holds a number of more than {INTEGER_BITS} bits"))


def _loaded(line: bytes) -> Any:  # noqa: ANN401  any JSON value
    """The line as JSON; None where it is none, which the parser will say better."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _refuse_commands(file: str, value: Any, where: str) -> None:  # noqa: ANN401  any JSON value
    found = commands_in(value)
    if found is not None:
        raise RefusedError(Finding(file, f"{where}holds characters that a terminal obeys: {found[:120]!a}"))


def _has_gigantic(value: Any) -> bool:  # noqa: ANN401  any JSON value
    if isinstance(value, dict):
        return any(map(_has_gigantic, value.values()))
    if isinstance(value, list):
        return any(map(_has_gigantic, value))
    return isinstance(value, int) and value.bit_length() > INTEGER_BITS
