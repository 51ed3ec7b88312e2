"""Files that are there only when they are whole, also after a kill or a power cut."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file


def write_tensors(path: Path, tensors: dict[str, torch.Tensor], metadata: dict[str, str]) -> None:
    """Writes a safetensors file."""
    partial = path.with_name(f".{path.name}.partial")
    save_file({name: tensors[name] for name in sorted(tensors)}, partial, metadata=metadata)
    partial.chmod(0o644)  # save_file leaves it to its owner alone
    _put(partial, path)


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Writes JSON with sorted keys."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    _put(partial, path)


def _put(partial: Path, path: Path) -> None:
    for place in (partial, path.parent):
        descriptor = os.open(place, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if place == partial:
            partial.replace(path)
