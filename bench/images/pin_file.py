"""Rewrites values of docker/pins.toml and leaves everything else of it, comments included, as it is."""

from __future__ import annotations

import datetime as dt
import tomllib
from typing import TYPE_CHECKING, Final, cast

import tomlkit
from pydantic import ValidationError

from bench.engine.pins import Pins
from bench.errors import StreamproofError
from bench.images.pin_finding import State
from bench.report.folder_files import write_whole

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tomlkit.items import Table

    from bench.images.pin_finding import Finding

_AFTER: Final = {"linux-amd64": "index", "build-commit": "how"}
"""A key that is new comes after this one."""

_DATE: Final = "resolved"
"""The one key that holds no text."""


def rewrite(path: Path, findings: Sequence[Finding]) -> None:
    """Writes what the registries said: digests, the date, and how they were found.

    Args:
        path: docker/pins.toml.
        findings: about its images; those that nobody confirmed change nothing.

    Raises:
        StreamproofError: the file cannot be read or written, or would no longer be valid.
    """
    text = path.read_text(encoding="utf-8")
    document = tomlkit.parse(text)
    images = cast("Table", document["images"])
    for finding in findings:
        if finding.state not in (State.CHANGED, State.CONFIRMED):
            continue
        values = {change.key: change.new for change in finding.changes if change.new is not None}
        _set(images, finding.name, values)
    new = tomlkit.dumps(document)
    try:
        Pins.model_validate(tomllib.loads(new))
    except ValidationError as error:
        raise StreamproofError(
            f"what the registries said does not fit into {path}: {error}", remedy="Nothing was written. Report this."
        ) from error
    if new != text:
        write_whole(path, new.encode())


def _set(images: Table, name: str, values: Mapping[str, str]) -> None:
    """Sets values of one image; a key that is new goes to where it belongs, not behind the comments at the end."""
    table = images[name]
    for key, text in values.items():
        value = dt.date.fromisoformat(text) if key == _DATE else text
        if key in table:
            table[key] = value
            continue
        longer = tomlkit.table()
        for old_key, item in table.value.body:
            longer.append(old_key, item)
            if old_key is not None and old_key.key == _AFTER[key]:
                longer.append(key, value)
        images[name] = table = longer
