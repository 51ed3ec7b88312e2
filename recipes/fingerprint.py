"""The fingerprint: a hash over everything that decides the numbers. Two reports with the same one are repeats.

In it: hardware, checkpoint (its files, not only its name), engine (release, flags, environment, closure, image digest),
workload (and the version of the text generator), load. Not in it: titles, sources and claims, which change no number,
and how many runs were made, which only makes it more certain.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from recipes.schema import Recipe


@dataclass(frozen=True, kw_only=True)
class Pinned:
    """What a recipe names and other files pin.

    Attributes:
        lock_sha256: of the engine environment's closure (docker/locks); None for an external engine.
        image_digest: of the engine's image; None where none is used.
        checkpoint_sha256: over the checkpoint's files (`folder_sha256`); None where only the server knows.
        workload_version: of the text generator.
    """

    lock_sha256: str | None
    image_digest: str | None
    checkpoint_sha256: str | None
    workload_version: str


def fingerprint(recipe: Recipe, pinned: Pinned) -> str:
    """64 hex digits: SHA-256 of canonical JSON (sorted keys, no spaces)."""
    decides = recipe.model_dump(mode="json", include={"hardware", "checkpoint", "engine", "workload", "load"})
    del decides["load"]["runs"]
    text = json.dumps({"recipe": decides, "pinned": asdict(pinned)}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def folder_sha256(folder: Path) -> str:
    """SHA-256 over a folder: the sorted lines "sha256  path" of all its files, as sha256sum prints them."""
    lines = []
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        with path.open("rb") as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.relative_to(folder).as_posix()}\n")
    return hashlib.sha256("".join(sorted(lines, key=lambda line: line[66:])).encode()).hexdigest()
