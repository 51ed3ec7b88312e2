"""How an engine in a cluster gets its weights."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from bench.deploy.asked import plain_path
from bench.engine.docker_container import CHECKPOINT
from bench.engine.pins import REPOSITORY
from bench.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from recipes.schema import Checkpoint

CONFIG_MAP_BYTES: Final = 900_000
"""Kubernetes allows 1 MiB for a whole ConfigMap."""

_FILE_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,252}")
"""Of a ConfigMap's files."""


@dataclass(frozen=True, kw_only=True)
class Weights:
    """Where a cluster's engine finds its checkpoint.

    Attributes:
        kind: "hub" (downloaded once, into a claim), "files" (a configuration that the manifest itself carries; the
            engine makes random weights), "claim" (a volume that the user has filled).
        model: what the engine is told to load.
        name: hub repository; otherwise the folder, relative to the repository.
        revision: commit of a hub repository; None where the recipe names none.
        files: content of the files that the manifest carries, by name; only of "files".
    """

    kind: Literal["hub", "files", "claim"]
    model: str
    name: str
    revision: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)


def weights_of(checkpoint: Checkpoint, repository: Path = REPOSITORY) -> Weights:
    """Of a recipe's checkpoint.

    Raises:
        UsageError: it cannot be brought to a cluster: its folder is elsewhere or not there, or too big to be carried.
    """
    if checkpoint.kind == "hub":
        return Weights(kind="hub", model=checkpoint.name, name=checkpoint.name, revision=checkpoint.revision)
    name = plain_path(checkpoint.name, what="the checkpoint")
    if checkpoint.kind == "dummy":
        return Weights(kind="files", model=CHECKPOINT, name=name, files=carried_files(repository / name))
    return Weights(kind="claim", model=CHECKPOINT, name=name)


def carried_files(folder: Path) -> dict[str, str]:
    """The text files of a folder, by name.

    Raises:
        UsageError: there are none, or what is there fits into no ConfigMap.
    """
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    try:
        files = {path.name: path.read_text(encoding="utf-8") for path in paths}
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{folder} holds more than text files, and a ConfigMap carries nothing else: {error}",
            remedy="Leave only the configuration there, or use checkpoint.kind = bundled, whose folder is a volume.",
        ) from error
    check_fits(files, what=str(folder))
    if not files:
        raise UsageError(f"the checkpoint's folder {folder} is not there.", remedy="Correct checkpoint.name.")
    return files


def check_fits(files: Mapping[str, str], *, what: str) -> None:
    """Return if a ConfigMap can hold the files.

    Raises:
        UsageError: it cannot.
    """
    for name in files:
        if _FILE_NAME.fullmatch(name) is None:
            raise UsageError(
                f"a ConfigMap can hold no file called {name!a}.", remedy="Rename it: letters, digits, dashes."
            )
    size = sum(len(name) + len(text.encode()) for name, text in files.items())
    if size > CONFIG_MAP_BYTES:
        raise UsageError(
            f"{what} has {size:,} bytes; a ConfigMap may have 1 MiB in all.", remedy="Leave out what is not needed."
        )
