"""A numpy quantizer: makes an NVFP4 checkpoint of ModelOpt's layout from a BF16 one, experts one by one.

Round to nearest with max-calibrated scales. What it is for: checkpoints that CI can quantize without torch, and damage.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantize.audit.folder import CONFIG, open_checkpoint, open_file
from quantize.audit.header import Tensor
from quantize.audit.numbers import (
    AMAX_PER_SCALE_2,
    BLOCK,
    E2M1,
    E4M3,
    from_bf16,
    max_calibrated_scales,
)

_FUSED = re.compile(r"^(model\..*\.experts)\.(gate_up|down)_proj$")
_NAMES = {np.dtype(np.uint8): "U8", np.dtype(np.float32): "F32", np.dtype(np.uint16): "BF16"}


def nvfp4(bits: NDArray[np.uint16], scale_2: float) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """(packed codes [rows, columns / 2], E4M3 scales [rows, columns / 16]) of a BF16 matrix."""
    rows, columns = bits.shape
    blocks = from_bf16(bits).reshape(rows, columns // BLOCK, BLOCK)
    scales = max_calibrated_scales(np.abs(blocks).max(axis=-1), scale_2)
    scaled = blocks / (E4M3[scales][:, :, None] * np.float32(scale_2))
    codes = np.abs(scaled[..., None] - E2M1[[0, 1, 2, 3, 4, 5, 6, 7]]).argmin(axis=-1)
    negative = np.abs(np.minimum(scaled, 0)) > 0
    codes = np.where(negative, np.abs(scaled[..., None] + E2M1[:8]).argmin(axis=-1) + 8, codes)
    flat = codes.astype(np.uint8).reshape(rows, columns)
    return (flat[:, 0::2] | (flat[:, 1::2] << 4)).astype(np.uint8), scales


def scale_2_of(*matrices: NDArray[np.uint16]) -> float:
    return max(float(from_bf16(bits & np.uint16(0x7FFF)).max()) for bits in matrices) / AMAX_PER_SCALE_2


def quantize_folder(source: Path, out: Path) -> None:
    """Quantizes the decoder's routed experts (preset `nvfp4_experts_only`); the rest is carried over."""
    shutil.copytree(source, out, ignore=shutil.ignore_patterns("*.safetensors"))
    checkpoint = open_checkpoint(source)
    written: dict[str, tuple[str, tuple[int, ...], bytes]] = {}
    for name, tensor in checkpoint.tensors.items():
        raw = read(checkpoint.path, tensor)
        found = _FUSED.match(name)
        if not found:
            written[name] = (tensor.dtype, tensor.shape, raw)
            continue
        for number, bits in enumerate(np.frombuffer(raw, dtype=np.uint16).reshape(tensor.shape)):
            halves = np.split(bits, 2) if found[2] == "gate_up" else [bits]
            shared = scale_2_of(*halves)
            for projection, half in zip(("gate", "up") if len(halves) == 2 else ("down",), halves, strict=True):
                linear = f"{found[1]}.{number}.{projection}_proj"
                packed, scales = nvfp4(half, shared)
                written[f"{linear}.weight"] = _entry(packed)
                written[f"{linear}.weight_scale"] = ("F8_E4M3", scales.shape, scales.tobytes())
                written[f"{linear}.weight_scale_2"] = _entry(np.full((), shared, dtype=np.float32))
                written[f"{linear}.input_scale"] = _entry(np.full((), 0.01, dtype=np.float32))
    write_safetensors(out / "model.safetensors", written)
    config = {**checkpoint.config, "quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}}
    (out / CONFIG).write_text(json.dumps(config), encoding="utf-8")
    (out / "hf_quant_config.json").write_text(json.dumps({"quantization": {"quant_algo": "NVFP4"}}), encoding="utf-8")


def _entry(array: NDArray[Any]) -> tuple[str, tuple[int, ...], bytes]:
    return _NAMES[array.dtype], array.shape, array.tobytes()


def read(folder: Path, tensor: Tensor) -> bytes:
    with os.fdopen(open_file(folder, tensor.shard), "rb") as file:
        file.seek(tensor.offset)
        return file.read(tensor.size)


def write_safetensors(path: Path, tensors: dict[str, tuple[str, tuple[int, ...], bytes]]) -> None:
    header: dict[str, Any] = {}
    offset = 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, _, data in tensors.values():
            file.write(data)
