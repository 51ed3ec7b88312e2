"""Opens a checkpoint folder that somebody hostile may have made, and finds out which tensors it holds.

Every fault that can be named without the folder's cooperation is collected, not raised: an audit shows them all.
Links are followed only inside the folder, or into the blobs of the hub's cache that the folder is a snapshot of.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

from bench.errors import StreamproofError
from bench.report.verify_files import shown
from bench.report.verify_json import HostileJsonError, strict_loads
from quantize.audit.header import HeaderError, Tensor, read_header
from quantize.audit.model import Offender

INDEX: Final = "model.safetensors.index.json"
CONFIG: Final = "config.json"
HF_QUANT_CONFIG: Final = "hf_quant_config.json"
PICKLES: Final = frozenset({".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"})
"""Endings of files that run code when they are loaded."""
ENTRY_LIMIT: Final = 20_000
"""Entries of a folder; a checkpoint of a thousand shards has 1,020."""
JSON_LIMIT: Final = 256 << 20
"""Bytes of a JSON file. An index of 123,000 tensors has 13 MB."""


@dataclass(slots=True)
class Checkpoint:
    """What a folder holds.

    Attributes:
        path: of the folder, resolved.
        config: `config.json`; empty when it is missing or unreadable (a fault then).
        hf_quant_config: `hf_quant_config.json`; None when it is not there.
        tensors: by name.
        shards: size in bytes by file name.
        pickles: names of pickle files.
        total_size: of all tensors, as the index says; None where it says nothing.
        faults: everything that is wrong with the files.
    """

    path: Path
    config: dict[str, Any] = field(default_factory=dict)
    hf_quant_config: dict[str, Any] | None = None
    tensors: dict[str, Tensor] = field(default_factory=dict)
    shards: dict[str, int] = field(default_factory=dict)
    pickles: tuple[str, ...] = ()
    total_size: int | None = None
    faults: list[Offender] = field(default_factory=list)

    @property
    def data_bytes(self) -> int:
        """Of all tensors."""
        return sum(tensor.size for tensor in self.tensors.values())

    def fault(self, name: str, reason: str) -> None:
        """Notes one."""
        self.faults.append(Offender(name=shown(name), reason=reason))


def open_checkpoint(folder: Path, *, what: str = "checkpoint") -> Checkpoint:
    """Reads the headers and the JSON files of a folder.

    Args:
        folder: the folder. It may itself be reached over a link: that is the reader's choice.
        what: it is called in errors.

    Raises:
        StreamproofError: there is no such folder, or nothing in it looks like a checkpoint.
    """
    try:
        path = folder.resolve(strict=True)
        names = _names(path)
    except OSError as error:
        raise StreamproofError(
            f"The {what} {folder} cannot be read: {error.strerror}.",
            remedy="Name the folder that holds config.json and the *.safetensors files.",
        ) from error
    checkpoint = Checkpoint(path)
    weights = sorted(name for name in names if name.endswith(".safetensors"))
    checkpoint.pickles = tuple(sorted(name for name in names if Path(name).suffix in PICKLES))
    if not weights and not checkpoint.pickles and CONFIG not in names:
        raise StreamproofError(
            f"The {what} {folder} holds no config.json and no weights.",
            remedy="Name the folder that holds config.json and the *.safetensors files.",
        )
    if not weights and not checkpoint.pickles:
        checkpoint.fault("*.safetensors", "is missing: there are no weights")
    checkpoint.config = _json(checkpoint, CONFIG) or {}
    if HF_QUANT_CONFIG in names:
        checkpoint.hf_quant_config = _json(checkpoint, HF_QUANT_CONFIG)
    for name in weights:
        _read_shard(checkpoint, name)
    _check_index(checkpoint, weights, has_index=INDEX in names)
    return checkpoint


def open_file(folder: Path, name: str) -> int:
    """Opens a plain file of a folder for reading.

    Raises:
        OSError: it cannot be opened, is no plain file, or is a link that leads out of the folder.
    """
    target = (folder / name).resolve(strict=True)
    blobs = folder.parent.parent / "blobs" if folder.parent.name == "snapshots" else None
    if not target.is_relative_to(folder) and not (blobs is not None and target.parent == blobs):
        raise OSError(0, "it is a link that leads out of the folder")
    # Non-blocking, because opening a named pipe would wait for its writer for ever.
    descriptor = os.open(target, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(0, "it is no plain file")
    return descriptor


def _names(path: Path) -> set[str]:
    names: set[str] = set()
    with os.scandir(path) as entries:
        for entry in entries:
            names.add(entry.name)
            if len(names) > ENTRY_LIMIT:
                raise OSError(0, f"it has more than {ENTRY_LIMIT:,} entries")
    return names


def _json(checkpoint: Checkpoint, name: str) -> dict[str, Any] | None:
    try:
        return _object(checkpoint.path, name)
    except FileNotFoundError:
        checkpoint.fault(name, "is missing")
    except (OSError, HostileJsonError) as error:
        checkpoint.fault(name, f"cannot be read: {getattr(error, 'strerror', None) or error}")
    return None


def _object(folder: Path, name: str) -> dict[str, Any]:
    with os.fdopen(open_file(folder, name), "rb") as file:
        raw = file.read(JSON_LIMIT + 1)
    if len(raw) > JSON_LIMIT:
        raise HostileJsonError(f"it is larger than {JSON_LIMIT >> 20} MiB")
    value = strict_loads(raw)
    if not isinstance(value, dict):
        raise HostileJsonError("it is no JSON object")
    return value


def _read_shard(checkpoint: Checkpoint, name: str) -> None:
    try:
        descriptor = open_file(checkpoint.path, name)
    except OSError as error:
        checkpoint.fault(name, f"cannot be read: {error.strerror}")
        return
    try:
        size = os.fstat(descriptor).st_size
        tensors = read_header(descriptor, size, name)
    except (HeaderError, OSError) as error:
        checkpoint.fault(name, str(error))
        return
    finally:
        os.close(descriptor)
    checkpoint.shards[name] = size
    for tensor in tensors:
        other = checkpoint.tensors.setdefault(tensor.name, tensor)
        if other is not tensor:
            checkpoint.fault(tensor.name, f"lies in two shards: {shown(other.shard)} and {shown(name)}")


def _check_index(checkpoint: Checkpoint, weights: list[str], *, has_index: bool) -> None:
    if not has_index:
        if len(weights) > 1:
            checkpoint.fault(INDEX, f"is missing, so that nothing says that the {len(weights)} shards are all")
        return
    index = _json(checkpoint, INDEX)
    if index is None:
        return
    located, metadata = index.get("weight_map"), index.get("metadata")
    if not isinstance(located, dict) or not all(isinstance(shard, str) for shard in located.values()):
        checkpoint.fault(INDEX, "has no weight_map from names to shards")
        return
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    checkpoint.total_size = total if type(total) is int else None
    _check_located(checkpoint, located, weights)


def _check_located(checkpoint: Checkpoint, located: dict[str, str], weights: list[str]) -> None:
    """Whether index and shards agree on what lies where."""
    _check_shard_names(checkpoint, located, weights)
    readable = checkpoint.shards.keys()
    for name, shard in located.items():
        tensor = checkpoint.tensors.get(name)
        if tensor is None and shard in readable:
            checkpoint.fault(name, f"is in the index, but not in {shown(shard)}")
        elif tensor is not None and tensor.shard != shard and shard in readable:
            checkpoint.fault(name, f"is in {shown(tensor.shard)}, but the index says {shown(shard)}")
    named = set(located.values())
    for tensor in checkpoint.tensors.values():
        if tensor.name not in located and tensor.shard in named:
            checkpoint.fault(tensor.name, f"is in {shown(tensor.shard)}, but not in the index")


def _check_shard_names(checkpoint: Checkpoint, located: dict[str, str], weights: list[str]) -> None:
    named = set(located.values())
    for shard in sorted(named):
        if "\0" in shard or "\\" in shard or PurePosixPath(shard).name != shard or shard in {"", ".", ".."}:
            checkpoint.fault(shard, "is named by the index and is no file name within the folder")
        elif shard not in weights:
            checkpoint.fault(shard, "is named by the index and is not there")
    for name in weights:
        if name not in named:
            checkpoint.fault(name, "is a shard outside the index")
