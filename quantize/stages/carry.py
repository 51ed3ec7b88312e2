"""The fourth stage: the whole checkpoint, with everything that was not quantized carried over byte by byte.

transformers drops the multi-token prediction head when it loads a model, and nobody says so. Here nothing of the
source is lost: what the export did not replace is copied, weights as well as tokenizer, chat template and the rest.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.report.folder_files import beside, put, write_whole
from quantize import __version__
from quantize.assemble import ignored, replaced, shards, with_ignored
from quantize.audit.folder import CONFIG, INDEX, open_checkpoint
from quantize.audit.header import Tensor, read_header
from quantize.stages import export
from quantize.stages.stage import Key, Outcome
from quantize.tensor_files import Placed, copy_tensors, file_size

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from quantize.stages.fetch import Source
    from quantize.stages.stage import Manifest, Workshop

NAME: Final = "carry"
CHECKPOINT: Final = "checkpoint"
"""Folder of the stage that is the checkpoint."""
SHARD_BYTES: Final = 4_000_000_000


def carry(
    source: Source,
    exported: Manifest,
    shop: Workshop,
    *,
    say: Callable[[str], None],
    on_shard: Callable[[int, int], None],
) -> Manifest:
    """Puts the checkpoint together.

    Args:
        source: the BF16 checkpoint.
        exported: what the export left.
        shop: where stages work.
        say: takes a line.
        on_shard: told how many shards of how many are there.

    Raises:
        StreamproofError: a tensor belongs nowhere, or the disk is full.
    """

    def work(partial: Path) -> Outcome:
        folder = partial / CHECKPOINT
        folder.mkdir(exist_ok=True)
        _assemble(source, shop.place(export.NAME), folder, on_shard)
        return Outcome()

    key = Key(inputs=source.digests | exported.digests("exported: "), parameters={"method": __version__})
    return shop.run(NAME, key, work, say=say)


def _assemble(source: Source, exported: Path, folder: Path, on_shard: Callable[[int, int], None]) -> None:
    layers = sorted(exported.glob("layer-*.safetensors"))
    new = {path: _tensors(path) for path in layers}
    original = open_checkpoint(source.folder).tensors
    gone = replaced((tensor.name for tensors in new.values() for tensor in tensors), original)
    kept = {name: tensor for name, tensor in original.items() if name not in gone}
    ordered = sorted(kept, key=lambda name: (kept[name].shard, kept[name].offset))
    groups = shards({name: kept[name].size for name in ordered}, SHARD_BYTES)
    total = len(layers) + len(groups)
    weight_map: dict[str, str] = {}
    for number, path in enumerate(layers, 1):
        name = _shard_name(number, total)
        _link(path, folder / name)
        weight_map |= {tensor.name: name for tensor in new[path]}
        on_shard(number, total)
    for number, names in enumerate(groups, 1 + len(layers)):
        name = _shard_name(number, total)
        placed = [Placed(source.folder / kept[tensor].shard, kept[tensor]) for tensor in names]
        if not (folder / name).is_file() or (folder / name).stat().st_size != file_size(placed):
            copy_tensors(folder / name, placed)
        weight_map |= dict.fromkeys(names, name)
        on_shard(number, total)
    size = sum(t.size for tensors in new.values() for t in tensors) + sum(t.size for t in kept.values())
    index = {"metadata": {"total_size": size}, "weight_map": dict(sorted(weight_map.items()))}
    _write(folder / INDEX, index)
    _write_configuration(source, exported, original, folder)
    for name in source.digests:
        if not name.endswith(".safetensors") and name not in (INDEX, CONFIG):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            _copy(source.folder / name, folder / name)


def _write_configuration(source: Source, exported: Path, tensors: Mapping[str, Tensor], folder: Path) -> None:
    hf_quant_config = json.loads((exported / export.HF_QUANT_CONFIG).read_bytes())
    quantization_config = json.loads((exported / export.QUANTIZATION_CONFIG).read_bytes())
    patterns = ignored(hf_quant_config["quantization"].get("exclude_modules", []), tensors, source.config)
    hf_quant_config, quantization_config = with_ignored(hf_quant_config, quantization_config, patterns)
    _write(folder / export.HF_QUANT_CONFIG, hf_quant_config)
    _write(folder / CONFIG, {**source.config, "quantization_config": quantization_config})


def _shard_name(number: int, total: int) -> str:
    return f"model-{number:05d}-of-{total:05d}.safetensors"


def _tensors(path: Path) -> list[Tensor]:
    with path.open("rb") as file:
        return read_header(file.fileno(), path.stat().st_size, path.name)


def _write(path: Path, value: Mapping[str, Any]) -> None:
    write_whole(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())


def _link(path: Path, place: Path) -> None:
    """Gives a file of ours a second name; a copy where the disk is another."""
    _place(path, place, os.link)


def _copy(path: Path, place: Path) -> None:
    """Copies a file of the source: what is done to one of them must not reach the other."""
    _place(path, place, shutil.copyfile)


def _place(path: Path, place: Path, how: Callable[[Path, Path], object]) -> None:
    if place.exists():
        return
    temporary = beside(place)
    try:
        try:
            how(path, temporary)
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK):
                raise
            shutil.copyfile(path, temporary)
        put(temporary, place)
    finally:
        temporary.unlink(missing_ok=True)
