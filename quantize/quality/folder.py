"""Which checkpoint a figure is about."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_CONFIGURATION: Final = ("config.json", "hf_quant_config.json", "model.safetensors.index.json")
_WHOLE: Final = 32 << 20
_ENDS: Final = 1 << 20


def identity(folder: Path) -> str:
    """A digest by which a checkpoint's folder is known again, whatever notes and signatures are put beside it.

    SHA-256 over the names and sizes of weights and configuration, over all bytes of those of at most 32 MiB, and over
    the first and the last MiB of larger ones: enough to tell two checkpoints apart in a second, and no proof of every
    byte, which the manifest that `just quantize` leaves has.
    """
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if not path.is_file() or not (path.suffix == ".safetensors" or path.name in _CONFIGURATION):
            continue
        size = path.stat().st_size
        digest.update(f"{len(path.name)}:{path.name}:{size}\n".encode())
        with path.open("rb") as file:
            digest.update(file.read(_WHOLE if size <= _WHOLE else _ENDS))
            if size > _WHOLE:
                file.seek(-_ENDS, 2)
                digest.update(file.read())
    return digest.hexdigest()
