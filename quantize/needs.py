"""What quantizing a model will need, computed before anything is downloaded.

Each figure is arithmetic from the model's configuration and the target; its formula stands beside it. The constants
are measured: how is said with each. "The H200 run" is the one in `evidence/h200/nvfp4-quantize-20261130`: 64 samples of
10,000 tokens, 80,000 at once, the source in memory, 16 cores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.errors import StreamproofError

if TYPE_CHECKING:
    from quantize.model_shape import ModelShape
    from quantize.target import Calibration

GIB: Final = 1 << 30

NVFP4_BYTES: Final = 0.5625
"""A value: four bits, and a byte of scale for every 16 values."""
_WORKER_BYTES: Final = {"cuda": 5 * GIB // 2, "cpu": 2 * GIB}
"""Resident memory of torch, transformers and ModelOpt without the model. Measured with the toy on a CPU: 0.9 to 1.9
GiB; on the H200 run, where CUDA comes on top, export's 5.5 GiB less a layer in and out: 2.4 GiB."""
_GDN_COPIES: Final = 15
"""FP32 tensors as wide as the Gated DeltaNet's values that a layer takes at once in transformers' own chunked rule.
Measured: 14 (10,000 tokens through the full-size rule on a CPU), and 14 on the H200 run: what its card had in use at
most (23,119 MiB), less two layers and the activations. One more as a margin."""
_EXPERT_SECONDS: Final = {"cuda": 2.6e-3, "cpu": 0.6e-3}
"""An expert in a forward pass of the observed model, launch-bound. The H200 run: calibration's 247 s less the
arithmetic below, over 81,920 calls. CPU: measured on two cores with a tiny expert."""
_EXPORT_SECONDS: Final = {"cuda": 4.7e-3, "cpu": 1.4e-3}
"""A linear through ModelOpt's exporter. The H200 run: 143.6 s for 30,720. CPU: measured on two cores with tiny ones;
the arithmetic comes on top."""
_FLOPS: Final = {"cuda": 100e12, "cpu": 0.1e12}
"""BF16 operations a second that calibration gets done: an assumption, careful for one H200 and for 16 cores."""
_BYTES_A_SECOND: Final = 1e9
"""To read or write a checkpoint: an assumption for one NVMe disk. (The H200 run: 67 s for all that is neither
calibration nor export, 3.2e9 by the formula below; but its source was in memory.)"""


@dataclass(frozen=True, kw_only=True)
class Need:
    """One quantity.

    Attributes:
        amount: bytes, or seconds.
        formula: how it comes about, for people.
    """

    amount: float
    formula: str


@dataclass(frozen=True, kw_only=True)
class Needs:
    """All that it takes.

    Attributes:
        gpu: memory of one GPU, bytes; zero on a CPU.
        memory: of the host, bytes.
        disk: in the work folder, bytes.
        seconds: from the end of the download to the signature.
    """

    gpu: Need
    memory: Need
    disk: Need
    seconds: Need


@dataclass(frozen=True, kw_only=True)
class Available:
    """What there is.

    Attributes:
        gpu: free memory of the GPU to use, bytes; None without one.
        memory: available memory of the host, bytes.
        disk: free on the work folder's disk, bytes.
    """

    gpu: int | None
    memory: int
    disk: int


def needs(shape: ModelShape, calibration: Calibration, *, device: str, download_bytes: int) -> Needs:
    """What it takes.

    Args:
        shape: of the model.
        calibration: of the target.
        device: "cpu" or "cuda".
        download_bytes: that the source will take in the work folder; 0 where it is a folder already.
    """
    activations = calibration.samples * calibration.tokens * shape.hidden * 2
    at_once = min(calibration.samples * calibration.tokens, max(calibration.batch_tokens, calibration.tokens))
    working = at_once * shape.gdn_width * 4 * _GDN_COPIES
    model = 2 * shape.layer_bytes + activations + working
    formula = (
        f"two layers in BF16 ({_gib(2 * shape.layer_bytes)}) + activations of {calibration.samples} x "
        f"{calibration.tokens} tokens ({_gib(activations)}) + {at_once} tokens in a layer ({_gib(working)})"
    )
    output = shape.total_bytes - shape.expert_values * (2 - NVFP4_BYTES)
    on_gpu = device == "cuda"
    worker = f"torch, transformers and ModelOpt ({_gib(_WORKER_BYTES[device])})"
    # Activations begin in the host's memory, and go through it each time that they are saved.
    beside = max(shape.layer_bytes, activations)
    memory = _WORKER_BYTES[device] + (shape.layer_bytes + beside if on_gpu else model)
    return Needs(
        gpu=Need(amount=model if on_gpu else 0, formula=formula if on_gpu else "no GPU is used"),
        memory=Need(
            amount=memory,
            formula=f"{worker} + "
            + (
                f"a layer ({_gib(shape.layer_bytes)}) + another one or the activations ({_gib(beside)})"
                if on_gpu
                else formula
            ),
        ),
        disk=Need(
            amount=download_bytes + output + activations,
            formula=f"the source ({_gib(download_bytes)}) + the checkpoint ({_gib(output)}) + activations "
            f"({_gib(activations)})",
        ),
        seconds=_seconds(shape, calibration, device),
    )


def _seconds(shape: ModelShape, calibration: Calibration, device: str) -> Need:
    tokens = calibration.samples * calibration.tokens
    passes = -(-tokens // max(calibration.batch_tokens, calibration.tokens))
    arithmetic = 2 * shape.active_parameters * tokens / _FLOPS[device]
    experts = passes * shape.layers * shape.experts * _EXPERT_SECONDS[device]
    exporting = 3 * shape.layers * shape.experts * _EXPORT_SECONDS[device]
    reading = 3 * shape.total_bytes / _BYTES_A_SECOND
    return Need(
        amount=arithmetic + experts + exporting + reading,
        formula=f"{tokens:,} tokens through {shape.active_parameters / 1e9:.1f} billion weights ({arithmetic:.0f} s) "
        f"+ {passes * shape.layers * shape.experts:,} calls of an expert ({experts:.0f} s) + "
        f"{3 * shape.layers * shape.experts:,} matrices to pack ({exporting:.0f} s) + reading and writing "
        f"({reading:.0f} s)",
    )


def check(wanted: Needs, available: Available) -> None:
    """Returns when it fits.

    Raises:
        StreamproofError: something is too small; says how much is there, and where the figure comes from.
    """
    smaller = "Fewer or shorter samples need less: --set calibration.samples=..., calibration.batch_tokens=..."
    for what, need, there, remedy in (
        ("GPU memory", wanted.gpu, available.gpu or 0, f"{smaller}; or --device cpu."),
        ("memory", wanted.memory, available.memory, f"{smaller}."),
        ("disk space", wanted.disk, available.disk, "Name a work folder on a larger disk: --work DIR."),
    ):
        if need.amount > there:
            raise StreamproofError(
                f"this needs {_gib(need.amount)} of {what}; {_gib(there)} are free. It is {need.formula}",
                remedy=remedy,
            )


def describe(wanted: Needs) -> list[str]:
    """The figures as lines for people."""
    lines = []
    if wanted.gpu.amount:
        lines.append(f"GPU memory  {_gib(wanted.gpu.amount)}: {wanted.gpu.formula}")
    lines.append(f"memory      {_gib(wanted.memory.amount)}: {wanted.memory.formula}")
    lines.append(f"disk        {_gib(wanted.disk.amount)}: {wanted.disk.formula}")
    minutes = wanted.seconds.amount / 60
    lines.append(
        f"time        about {minutes:.0f} min: {wanted.seconds.formula}" if minutes >= 1 else "time        a minute"
    )
    return lines


def _gib(size: float) -> str:
    return f"{size / GIB:.1f} GiB"
