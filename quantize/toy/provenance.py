"""How a checkpoint came to be, beside the checkpoint: `PROVENANCE.json`, and the check that it is still true."""

from __future__ import annotations

import hashlib
import json
import platform
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pathlib import Path

PROVENANCE: Final = "PROVENANCE.json"

_LIBRARIES: Final = ("torch", "transformers", "tokenizers", "safetensors", "numpy")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRecord:
    """What one training run was.

    Attributes:
        command: the command line that ran it, without the program.
        settings: all that decides the result besides the corpus.
        device: the hardware's name.
        seconds: how long the steps took.
        corpus: what `quantize.toy.prepare` says about the documents.
        result: final losses and the evaluation on held-out documents.
    """

    command: str
    settings: dict[str, Any]
    device: str
    seconds: float
    corpus: dict[str, Any]
    result: dict[str, Any]


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_provenance(folder: Path, record: TrainingRecord) -> None:
    """Writes `PROVENANCE.json`: the record, library versions, and size and SHA-256 of every other file of the folder.

    Args:
        folder: the checkpoint, complete.
        record: how it was trained.
    """
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name != PROVENANCE)
    content = asdict(record) | {
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in _LIBRARIES},
        "files": {path.name: {"bytes": path.stat().st_size, "sha256": file_digest(path)} for path in files},
    }
    (folder / PROVENANCE).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def differences(folder: Path) -> list[str]:
    """What is not as `PROVENANCE.json` says.

    Args:
        folder: a checkpoint.

    Returns:
        One line for each file that is missing, changed or unlisted; empty when all is as written.
    """
    listed = json.loads((folder / PROVENANCE).read_text(encoding="utf-8"))["files"]
    present = {path.name for path in folder.iterdir() if path.name != PROVENANCE}
    found = [f"{name}: listed, not there" for name in sorted(listed.keys() - present)]
    found += [f"{name}: there, not listed" for name in sorted(present - listed.keys())]
    for name in sorted(listed.keys() & present):
        if file_digest(folder / name) != listed[name]["sha256"]:
            found.append(f"{name}: its SHA-256 is not the listed one")
    return found
