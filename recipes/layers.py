"""A recipe as written: one TOML file, or one set of overrides, with its values as leaves and where each one stands.

`tomllib` parses but forgets where; `line_of` finds a key again, so that an error can name its line.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from bench.errors import UsageError

Leaf: TypeAlias = Any
"""A TOML value that is not a table: a number, a string, a list, ..."""

_HEADER = re.compile(r"^\s*\[{1,2}\s*([^\[\]]+?)\s*\]{1,2}\s*(?:#.*)?$")
_KEY = re.compile(r"""^\s*((?:[A-Za-z0-9_-]+|"[^"]*")(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"))*)\s*=""")


@dataclass(frozen=True)
class Layer:
    """One layer of a recipe.

    Attributes:
        origin: the file's name, or "--set".
        values: dotted key to leaf, nested tables flattened.
        sources: dotted key, or prefix of keys, to the raw source table.
        claims: the raw claims.
        extends: name of the recipe below this one.
        abstract: a layer to extend, no target of its own.
        text: the file's text, for line numbers.
        folder: where the file lies; None for overrides.
    """

    origin: str
    values: dict[str, Leaf] = field(default_factory=dict)
    sources: dict[str, dict[str, Any]] = field(default_factory=dict)
    claims: list[Any] = field(default_factory=list)
    extends: str | None = None
    abstract: bool = False
    text: str = ""
    folder: Path | None = None

    def where(self, key: str) -> str:
        """File and line of `key`, or of the innermost table around it, or of the first row of an array of tables."""
        parts = key.split(".")
        for end in range(len(parts), 0, -1):
            line = line_of(self.text, ".".join(parts[:end]))
            if line is not None:
                return f"{self.origin}, line {line}"
        return self.origin


def read_layer(path: Path) -> Layer:
    """Reads one recipe file.

    Raises:
        UsageError: the file is not TOML, or a top-level key has the wrong shape.
    """
    text = path.read_text(encoding="utf-8")
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path.name} is not TOML: {error}", remedy="Correct that line.") from error
    sources = raw.pop("sources", {})
    claims = raw.pop("claims", [])
    extends = raw.pop("extends", None)
    abstract = raw.pop("abstract", False)
    shapes = (
        ("sources", sources, dict),
        ("claims", claims, list),
        ("extends", extends, str),
        ("abstract", abstract, bool),
    )
    for name, value, kind in shapes:
        if value is not None and not isinstance(value, kind):
            layer = Layer(origin=path.name, text=text)
            raise UsageError(f"{layer.where(name)}: {name} must be a {kind.__name__}, not {value!r}.")
    return Layer(
        origin=path.name,
        values=dict(flatten(raw)),
        sources=sources,
        claims=claims,
        extends=extends,
        abstract=abstract,
        text=text,
        folder=path.parent,
    )


def read_overrides(assignments: Mapping[str, str]) -> Layer:
    """The layer of `--set key=value`: the value is read as TOML where it is TOML, else as a string."""
    values: dict[str, Leaf] = {}
    for key, written in assignments.items():
        try:
            value = tomllib.loads(f"value = {written}")["value"]
        except tomllib.TOMLDecodeError:
            value = written
        values.update(flatten({key: value}) if isinstance(value, dict) else {key: value})
    why = "set on the command line"
    return Layer("--set", values, {key: {"kind": "assumption", "why": why} for key in values})


def flatten(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Leaf]]:
    """Dotted keys and leaves of nested tables; an empty table is a leaf."""
    for key, value in table.items():
        dotted = f"{prefix}{key}"
        if isinstance(value, dict) and value:
            yield from flatten(value, f"{dotted}.")
        else:
            yield dotted, value


def unflatten(leaves: Mapping[str, Leaf]) -> dict[str, Any]:
    """The nested tables of dotted keys.

    Raises:
        UsageError: a key is both a value and a table.
    """
    root: dict[str, Any] = {}
    for dotted, value in leaves.items():
        *tables, last = dotted.split(".")
        table = root
        for name in tables:
            inner = table.setdefault(name, {})
            if not isinstance(inner, dict):
                raise UsageError(f"{dotted}: {name} is a value, not a table.")
            table = inner
        table[last] = value
    return root


def line_of(text: str, dotted: str) -> int | None:
    """The line, from 1, on which `dotted` is set or its table begins; None if it stands nowhere."""
    table = ""
    inside_string = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.count('"""') % 2:
            inside_string = not inside_string
            if not inside_string:
                continue
        elif inside_string:
            continue
        if header := _HEADER.match(line):
            table = _plain(header[1])
            if table == dotted:
                return number
        elif assignment := _KEY.match(line):
            key = _plain(assignment[1])
            if (f"{table}.{key}" if table else key) == dotted:
                return number
    return None


def _plain(key: str) -> str:
    return re.sub(r"\s*\.\s*", ".", key.replace('"', ""))
