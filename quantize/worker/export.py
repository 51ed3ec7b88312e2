"""Writes the quantized tensors, one file a decoder layer, with ModelOpt's own exporter.

Each file holds what replaces tensors of the source (packed weights and their scales) and the KV cache's scales, under
the names that the engine loads. What is not quantized is not here: it is carried over from the source, byte by byte.

    python -m quantize.worker.export JOB.json
"""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

import modelopt.torch.quantization as mtq
import torch
from modelopt.torch.export.convert_hf_config import convert_hf_quant_config_format
from modelopt.torch.export.unified_export_hf import _export_transformers_checkpoint
from modelopt.torch.quantization.nn import TensorQuantizer
from safetensors.torch import load_file

from quantize.worker.calibrate import ranges_file
from quantize.worker.device import peak_bytes, versions
from quantize.worker.files import write_json, write_tensors
from quantize.worker.formats import quantizers
from quantize.worker.job import Job, begin, read_job
from quantize.worker.one_layer import LAYER, one_layer
from quantize.worker.source import Source

if TYPE_CHECKING:
    from quantize.worker.job import Teller

_KV_SCALES: Final = ("k_proj.k_scale", "v_proj.v_scale")
_FUSED_EXPERTS: Final = ("mlp.experts.gate_up_proj", "mlp.experts.down_proj")


HF_QUANT_CONFIG: Final = "hf_quant_config.json"
QUANTIZATION_CONFIG: Final = "quantization_config.json"


def layer_file(index: int) -> str:
    """Name of the file with the quantized tensors of a layer."""
    return f"layer-{index:05d}.safetensors"


def format_file(index: int) -> str:
    """Name of the file with what ModelOpt says of a layer's quantization."""
    return f"layer-{index:05d}.json"


def main() -> None:
    """Exports as the job says."""
    tell = begin()
    job = read_job(sys.argv[1])
    # ModelOpt gives all cached GPU memory back to the driver after each of 30,720 matrices; one layer at a time does
    # not need that, and asking for it again each time takes longer than the quantization.
    with torch.inference_mode(), mock.patch.object(torch.cuda, "empty_cache"):
        export(job, tell)
    tell.done(peak_gpu_bytes=peak_bytes(), versions=versions())


def export(job: Job, tell: Teller) -> None:
    """Writes one file of tensors and one of formats for each decoder layer that has none yet."""
    source = Source(job.source, job.device)
    configuration = quantizers(job.preset, job.kv_cache)
    for index in range(source.layers):
        tell.progress(index, source.layers, f"layer {index + 1}")
        if (job.out / layer_file(index)).exists():  # written last, and only when whole
            continue
        assert job.ranges is not None  # noqa: S101  the client never exports without
        model = one_layer(source, index, job.device)
        mtq.quantize(model, configuration, None)  # the weights' ranges
        _set_ranges(model, job.ranges / ranges_file(index))
        tensors, formats = _export_transformers_checkpoint(model, torch.bfloat16)
        prefix = f"{source.prefix}layers.{index}."
        write_json(job.out / format_file(index), _renamed(formats, prefix))
        write_tensors(job.out / layer_file(index), _quantized(tensors, prefix), {"format": "pt"})
        del model, tensors
        gc.collect()  # a model refers to itself
    formats = _merged([json.loads((job.out / format_file(i)).read_bytes()) for i in range(source.layers)])
    write_json(job.out / HF_QUANT_CONFIG, formats)
    write_json(job.out / QUANTIZATION_CONFIG, convert_hf_quant_config_format(formats))
    tell.progress(source.layers, source.layers, "done")


def _set_ranges(model: torch.nn.Module, path: Path) -> None:
    """Gives every observer what calibration measured.

    Raises:
        ValueError: a measured quantizer is not in the model.
    """
    ranges = load_file(path)
    for name, module in model.named_modules():
        if isinstance(module, TensorQuantizer) and (amax := ranges.pop(name.removeprefix(LAYER), None)) is not None:
            module.amax = amax.to(next(model.parameters()).device)
    if ranges:
        raise ValueError(f"calibration measured quantizers that the model does not have: {sorted(ranges)}")


def _quantized(tensors: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    """Of all exported tensors, those that are not the source's own, under the checkpoint's names."""
    inside = {name.removeprefix(LAYER): value for name, value in tensors.items() if name.startswith(LAYER)}
    linears = {name.removesuffix("_scale") for name in inside if name.endswith(".weight_scale")}
    linears = {name.removesuffix(".weight") for name in linears}
    if left := [name for name in _FUSED_EXPERTS if name in inside]:
        raise ValueError(f"experts left as they were: {', '.join(left)}")
    return {
        f"{prefix}{name}": value.detach().cpu().contiguous()
        for name, value in inside.items()
        if name.rpartition(".")[0] in linears or name.endswith(_KV_SCALES)
    }


def _merged(layers: list[dict[str, Any]]) -> dict[str, Any]:
    """What ModelOpt says of all layers, as it would say it of the whole decoder.

    Raises:
        ValueError: the layers have different formats.
    """
    whole: dict[str, Any] = {}
    excluded: list[str] = []
    by_name: dict[str, Any] = {}
    for layer in layers:
        quantization = dict(layer["quantization"])
        excluded += quantization.pop("exclude_modules", [])
        by_name |= quantization.pop("quantized_layers", {})
        # Layers without attention have no KV cache to speak of.
        quantization = {key: value for key, value in quantization.items() if value is not None}
        for key, value in quantization.items():
            if whole.setdefault(key, value) != value:
                raise ValueError(f"layers differ in {key}: {whole[key]} and {value}")
    whole.setdefault("kv_cache_quant_algo", None)
    whole["exclude_modules"] = sorted(excluded)
    if by_name:
        whole["quantized_layers"] = by_name
    return {"producer": layers[0]["producer"], "quantization": whole}


def _renamed(formats: dict[str, Any], prefix: str) -> dict[str, Any]:
    """ModelOpt's description of the one-layer model as one of that layer; the embedding is a stand-in there."""
    quantization = dict(formats["quantization"])
    excluded = [name for name in quantization.get("exclude_modules", []) if name.startswith(LAYER)]
    quantization["exclude_modules"] = [prefix + name.removeprefix(LAYER) for name in excluded]
    if "quantized_layers" in quantization:
        quantization["quantized_layers"] = {
            prefix + name.removeprefix(LAYER): value for name, value in quantization["quantized_layers"].items()
        }
    return {"producer": formats["producer"], "quantization": quantization}


if __name__ == "__main__":
    main()
