"""An NVFP4 checkpoint of ModelOpt's layout as a BF16 folder that vLLM and transformers serve on any hardware.

So that a quantized checkpoint's loss can be measured where nothing runs NVFP4: **of its weights only**. Activations and
KV cache, which the engine also quantizes on Blackwell, stay in BF16; what is measured is a part of the loss.

A value is E2M1 code x E4M3 scale of its block of 16 x FP32 scale of its tensor (`quantize.audit.numbers`). The product
of the first two has six significant bits, so only the tensor's scale makes BF16 round: by 2^-9 of a value at most,
where NVFP4 itself is off by up to a sixth. Routed experts, which ModelOpt writes one by one, are put back into one
tensor a projection, as Qwen3.5's own checkpoints have them. Everything that was not quantized is copied as it is.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import numpy as np

from bench.errors import StreamproofError, UsageError
from quantize.audit.folder import CONFIG, HF_QUANT_CONFIG, INDEX, Checkpoint, open_checkpoint, open_file
from quantize.audit.numbers import BLOCK, E4M3, unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from quantize.audit.header import Tensor

SHARD_BYTES: Final = 5_000_000_000
"""Largest file, unless a single tensor is larger."""

_SCALES: Final = re.compile(r"\.(?:weight_scale|weight_scale_2|input_scale|[kv]_scale)$")
_EXPERT: Final = re.compile(r"^(.*\.experts)\.(\d+)\.(gate|up|down)_proj\.weight$")
_REMEDY: Final = "`just quantize audit` says what is wrong with it."


@dataclass(frozen=True, slots=True)
class Planned:
    """A tensor to be written: the tensors that it is made of, one after the other in its bytes.

    Attributes:
        name: in the new checkpoint.
        dtype: the format's name.
        shape: its dimensions.
        size: in bytes.
        parts: what it is made of.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    size: int
    parts: tuple[Tensor, ...]


def dequantize(folder: Path, out: Path, *, on_bytes: Callable[[int, int], None] = lambda _done, _total: None) -> None:
    """Writes the BF16 checkpoint.

    Args:
        folder: NVFP4 checkpoint.
        out: folder to make; appears only when it is whole.
        on_bytes: hears how many bytes of how many are written.

    Raises:
        UsageError: `out` is there already, or the checkpoint is not NVFP4.
        StreamproofError: it is damaged, or `out` cannot be written.
    """
    if out.exists():
        raise UsageError(f"{out} is there already", remedy="Name a folder that does not exist, or remove it.")
    checkpoint = open_checkpoint(folder)
    if checkpoint.faults:
        first = checkpoint.faults[0]
        raise StreamproofError(f"{folder} is damaged: {first.name} {first.reason}", remedy=_REMEDY)
    planned = _plan(checkpoint)
    partial = out.with_name(f"{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        _copy_rest(checkpoint, partial)
        _write_weights(checkpoint, planned, partial, on_bytes)
        os.rename(partial, out)  # noqa: PTH104  refuses a folder that appeared meanwhile, as Path.replace would too
    except OSError as error:
        raise StreamproofError(
            f"{out} cannot be written: {error.strerror}",
            remedy=f"It needs {sum(tensor.size for tensor in planned) / 1e9:.1f} GB on a disk that can be written to.",
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def tenths(say: Callable[[str], None]) -> Callable[[int, int], None]:
    """For `on_bytes`: says a line whenever another tenth is written, if it is a gigabyte or more in all."""
    told = 0

    def on_bytes(done: int, total: int) -> None:
        nonlocal told
        if total >= 1_000_000_000 and (tenth := done * 10 // total) > told:
            told = tenth
            say(f"  {done / 1e9:.1f} of {total / 1e9:.1f} GB written")

    return on_bytes


def _plan(checkpoint: Checkpoint) -> list[Planned]:
    tensors = checkpoint.tensors
    quantized = {name for name, tensor in tensors.items() if tensor.dtype == "U8" and name.endswith(".weight")}
    if not quantized:
        raise UsageError(
            f"{checkpoint.path} has no NVFP4 weights", remedy="Name a checkpoint that ModelOpt exported as NVFP4."
        )
    experts: dict[str, dict[int, dict[str, Tensor]]] = defaultdict(lambda: defaultdict(dict))
    planned = []
    for name, tensor in tensors.items():
        if name in quantized:
            _check_scales(tensors, tensor)
            if found := _EXPERT.match(name):
                experts[found[1]][int(found[2])][found[3]] = tensor
            else:
                planned.append(_planned(name, tensor.shape[:1], (tensor,)))
        elif not _SCALES.search(name):
            planned.append(Planned(name, tensor.dtype, tensor.shape, tensor.size, (tensor,)))
    for prefix, by_number in experts.items():
        for projection, of_each in (("gate_up_proj", ("gate", "up")), ("down_proj", ("down",))):
            try:
                parts = [by_number[number][part] for number in range(len(by_number)) for part in of_each]
            except KeyError:
                raise StreamproofError(f"{prefix} lacks a projection of an expert", remedy=_REMEDY) from None
            rows = sum(part.shape[0] for part in parts[: len(of_each)])
            planned.append(_planned(f"{prefix}.{projection}", (len(by_number), rows), tuple(parts)))
    return planned


def _planned(name: str, sides: tuple[int, ...], parts: tuple[Tensor, ...]) -> Planned:
    """A dequantized tensor; `sides` are all of its dimensions but the last."""
    columns = {part.shape[1] * 2 for part in parts}
    if len(columns) != 1 or sum(part.shape[0] for part in parts) != math.prod(sides):
        raise StreamproofError(f"the parts of {name} have different shapes", remedy=_REMEDY)
    shape = (*sides, columns.pop())
    return Planned(name, "BF16", shape, 2 * math.prod(shape), parts)


def _check_scales(tensors: dict[str, Tensor], weight: Tensor) -> None:
    rows, packed = weight.shape
    scale, scale_2 = tensors.get(f"{weight.name}_scale"), tensors.get(f"{weight.name}_scale_2")
    wanted = ("F8_E4M3", (rows, packed * 2 // BLOCK))
    if scale is None or (scale.dtype, scale.shape) != wanted:
        raise StreamproofError(f"{weight.name} has no E4M3 scale for each block of {BLOCK}", remedy=_REMEDY)
    if scale_2 is None or (scale_2.dtype, math.prod(scale_2.shape)) != ("F32", 1):
        raise StreamproofError(f"{weight.name} has no FP32 scale", remedy=_REMEDY)


def _copy_rest(checkpoint: Checkpoint, out: Path) -> None:
    """Tokenizer, template and the like; the configuration without its quantization."""
    for path in sorted(checkpoint.path.iterdir()):
        weights = path.suffix == ".safetensors" or path.name in {INDEX, HF_QUANT_CONFIG, CONFIG}
        if path.is_file() and not weights:
            shutil.copyfile(path, out / path.name)
    config = {key: value for key, value in checkpoint.config.items() if key != "quantization_config"}
    (out / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _write_weights(
    checkpoint: Checkpoint, planned: Sequence[Planned], out: Path, on_bytes: Callable[[int, int], None]
) -> None:
    shards = list(_shards(planned))
    total, done = sum(tensor.size for tensor in planned), 0
    located: dict[str, str] = {}
    for number, shard in enumerate(shards, start=1):
        name = f"model-{number:05d}-of-{len(shards):05d}.safetensors" if len(shards) > 1 else "model.safetensors"
        with (out / name).open("wb") as file:
            _write_header(file, shard)
            for tensor in shard:
                located[tensor.name] = name
                for part in tensor.parts:
                    file.write(_bytes(checkpoint, part).data)
                done += tensor.size
                on_bytes(done, total)
    if len(shards) > 1:
        index = {"metadata": {"total_size": total}, "weight_map": located}
        (out / INDEX).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")


def _shards(planned: Iterable[Planned]) -> Iterator[list[Planned]]:
    shard: list[Planned] = []
    size = 0
    for tensor in planned:
        if shard and size + tensor.size > SHARD_BYTES:
            yield shard
            shard, size = [], 0
        shard.append(tensor)
        size += tensor.size
    yield shard


def _write_header(file: BinaryIO, tensors: Iterable[Planned]) -> None:
    """8 bytes of length, then JSON: https://github.com/huggingface/safetensors, "Format"."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for tensor in tensors:
        offsets = [offset, offset + tensor.size]
        header[tensor.name] = {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": offsets}
        offset += tensor.size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)


def _bytes(checkpoint: Checkpoint, tensor: Tensor) -> NDArray[np.uint8]:
    raw = _read(checkpoint, tensor)
    scale = checkpoint.tensors.get(f"{tensor.name}_scale")
    if tensor.dtype != "U8" or scale is None:
        return raw
    scale_2 = _read(checkpoint, checkpoint.tensors[f"{tensor.name}_scale_2"]).view("<f4")
    return dequantized(
        raw.reshape(tensor.shape), _read(checkpoint, scale).reshape(scale.shape), float(scale_2.reshape(-1)[0])
    ).view(np.uint8)


def dequantized(packed: NDArray[np.uint8], scales: NDArray[np.uint8], scale_2: float) -> NDArray[np.uint16]:
    """Bits of the BF16 values of an NVFP4 matrix.

    Args:
        packed: two E2M1 codes a byte, the even column in the low nibble; [rows, columns / 2].
        scales: E4M3 bytes, [rows, columns / 16].
        scale_2: of the whole matrix.

    Returns:
        [rows, columns].
    """
    values = unpack(packed)
    rows, columns = values.shape
    blocks = values.reshape(rows, columns // BLOCK, BLOCK) * E4M3[scales][:, :, None]
    return to_bf16((blocks * np.float32(scale_2)).reshape(rows, columns))


def to_bf16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Bits of the nearest BF16 values, ties to even. NaN stays NaN."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)


def _read(checkpoint: Checkpoint, tensor: Tensor) -> NDArray[np.uint8]:
    with os.fdopen(open_file(checkpoint.path, tensor.shard), "rb") as file:
        file.seek(tensor.offset)
        data = file.read(tensor.size)
    if len(data) != tensor.size:
        raise StreamproofError(f"{checkpoint.path / tensor.shard} ends within {tensor.name}", remedy=_REMEDY)
    return np.frombuffer(data, dtype=np.uint8)
