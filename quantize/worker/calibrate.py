"""Measures the range of every quantized linear's input, and of keys and values, on real text.

Max calibration needs no quantized arithmetic: each decoder layer runs in BF16 with ModelOpt's observers, on what the
layer before it put out. So one layer and the activations of all samples are in memory, and no more. From time to time
the activations are written out, and a later attempt goes on from there.

    python -m quantize.worker.calibrate JOB.json
"""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING, Final

import modelopt.torch.quantization as mtq
import torch
from modelopt.torch.quantization.nn import TensorQuantizer
from safetensors.torch import load_file

from quantize.worker.device import peak_bytes, room_for, versions
from quantize.worker.files import write_tensors
from quantize.worker.formats import quantizers
from quantize.worker.job import Job, begin, read_job
from quantize.worker.one_layer import LAYER, one_layer
from quantize.worker.source import Source

if TYPE_CHECKING:
    from quantize.worker.job import Teller

TOKENS: Final = "tokens"
"""The one tensor of the file with token ids: int32 [samples, length]."""


def ranges_file(index: int) -> str:
    """Name of the file with the measured ranges of a layer: quantizer to float32 scalar, the largest magnitude."""
    return f"ranges-{index:05d}.safetensors"


def main() -> None:
    """Calibrates as the job says."""
    tell = begin()
    job = read_job(sys.argv[1])
    with torch.inference_mode():
        calibrate(job, tell)
    tell.done(peak_gpu_bytes=peak_bytes(), versions=versions())


def calibrate(job: Job, tell: Teller) -> None:
    """Writes one file of ranges for each decoder layer."""
    source = Source(job.source, job.device)
    configuration = quantizers(job.preset, job.kv_cache)
    activations = _Activations(job, source)
    for index in range(activations.next_layer, source.layers):
        tell.progress(index, source.layers, f"layer {index + 1}")
        model = one_layer(source, index, job.device)
        mtq.quantize(model, configuration, activations.through)
        write_tensors(job.out / ranges_file(index), _ranges(model), {"layer": str(index)})
        del model
        gc.collect()  # a model refers to itself
        activations.finished(index)
    tell.progress(source.layers, source.layers, "done")


class _Activations:
    """What goes into the next layer: one tensor [samples, length, hidden] for each batch of samples.

    Attributes:
        next_layer: the layer that they go into.
    """

    def __init__(self, job: Job, source: Source) -> None:
        self._job = job
        self._layers = source.layers
        saved = sorted(job.out.glob("activations-*.safetensors"))
        if saved:
            self.next_layer = int(saved[-1].stem.rpartition("-")[2])
            tensors = load_file(saved[-1])
            self._batches = [tensors[name] for name in sorted(tensors)]
        else:
            self.next_layer = 0
            self._batches = _embedded(job, source)
        # Beside the weights where they fit, else in the host's memory.
        if room_for(sum(batch.nbytes for batch in self._batches), job.device):
            self._batches = [batch.to(job.device) for batch in self._batches]

    def through(self, model: torch.nn.Module) -> None:
        """Sends all of them through the model and keeps what comes out. ModelOpt's forward loop."""
        for number, batch in enumerate(self._batches):
            out = model(inputs_embeds=batch.to(self._job.device), use_cache=False).last_hidden_state
            self._batches[number] = out.to(batch.device)

    def finished(self, index: int) -> None:
        """Layer `index` is done; keeps a copy every so many layers."""
        self.next_layer = index + 1
        earlier = list(self._job.out.glob("activations-*.safetensors"))
        is_last = self.next_layer == self._layers
        keep = not is_last and self.next_layer % self._job.save_every == 0
        if keep:
            path = self._job.out / f"activations-{self.next_layer:05d}.safetensors"
            batches = {f"{number:05d}": batch.cpu() for number, batch in enumerate(self._batches)}
            write_tensors(path, batches, {"next_layer": str(self.next_layer)})
        if keep or is_last:
            for path in earlier:
                path.unlink()


def _embedded(job: Job, source: Source) -> list[torch.Tensor]:
    assert job.tokens is not None  # noqa: S101  the client never calibrates without
    tokens = load_file(job.tokens)[TOKENS]
    rows = max(1, job.batch_tokens // tokens.shape[1])
    table = source.embedding()
    return [torch.nn.functional.embedding(batch.long().to(table.device), table).cpu() for batch in tokens.split(rows)]


def _ranges(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """By quantizer, the largest magnitude that it saw; weights are left out, export sees them again."""
    found = {}
    for name, module in model.named_modules():
        if not isinstance(module, TensorQuantizer) or not module.is_enabled or "weight_quantizer" in name:
            continue
        amax = getattr(module, "_amax", None)
        if amax is not None:
            found[name.removeprefix(LAYER)] = amax.detach().float().cpu().reshape(())
    return found


if __name__ == "__main__":
    main()
