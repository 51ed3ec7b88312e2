"""What an engine's log says of loading a checkpoint: method, backend, and every tensor by name.

Read in the source of vLLM 0.26.0, and tried on it with damaged checkpoints:

- `--model-loader-extra-config '{"enable_weights_track":true}'` makes the loader compare the names of all parameters
  with those that were loaded (model_loader/default_loader.py, `track_weights_loading`), and it writes nothing when all
  is well. **But it first counts every parameter of a module that has a `quant_method` as loaded**, and every linear
  layer, embedding and routed expert has one, quantized or not. What is left to miss are norms and the like. So it finds
  a checkpoint without any `mtp.*` (its norms are missing), and does not find one without `mtp.fc.weight` or without the
  `up_proj` of an expert: both start, and answer.
- The loaders name what they load at level DEBUG: `Loaded weight NAME with shape SHAPE` (models/utils.py) and, for every
  single expert, `Loaded expert N of shard w1|w2|w3 into PARAMETER for layer LAYER` (fused_moe/routed_experts.py).
  `VLLM_LOGGING_CONFIG_PATH` lets these two modules speak and no other. That is what finds the missing expert.
- Projections that vLLM packs with others (q, k and v; the shared expert's gate and up; Gated DeltaNet's inputs) are
  loaded without a line, and scales of the KV cache under another name: they stay unseen here.
- What an attention layer makes of its KV scales is said once by the whole process, not once a model
  (layers/quantization/kv_cache.py, `warning_once`), and neither line names a layer: "Checkpoint does not provide a q
  scaling factor" by the first layer with an FP8 cache, "Using KV cache scaling factor 1.0" by the first one without
  scales. The drafter is loaded after the target is whole ("Loading drafter model..."), so where a line stands tells
  whose it is; and what the target has said, the drafter no longer can.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from bench.engine.log_lines import LineSplitter
from quantize.quality.served import EngineFacts

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from bench.engine.log_lines import LogLine
    from bench.observe.observations import EngineStarted
    from quantize.quality.served import KvScales

Part: TypeAlias = Literal["target", "drafter"]

LOADERS: Final = ("vllm.model_executor.models.utils", "vllm.model_executor.layers.fused_moe.routed_experts")
"""Modules of vLLM that name what they load."""

_QUANTIZATION: Final = re.compile(r"^Initializing a V1 LLM engine .*?\bquantization=(\w+)")
_MOE: Final = re.compile(r"^Using '?(\w+)'? (?:NvFp4|Fp8|Unquantized) MoE backend")
_LINEAR: Final = re.compile(r"^Using (\w+) for NVFP4 GEMM")
_WEIGHT_ONLY: Final = "Weight-only FP4 compression will be used"
_FP8_CACHE: Final = "Checkpoint does not provide a q scaling factor"
_NO_KV_SCALES: Final = "Using KV cache scaling factor 1.0 "
_LOAD: Final = re.compile(r"^Loading weights took ([\d.]+) seconds")
_MEMORY: Final = re.compile(r"^Model loading took ([\d.]+) GiB")
_DRAFTER: Final = "Loading drafter model"
_ARGUMENTS: Final = re.compile(r"^non-default args: .*'enable_weights_track': True")
_WEIGHT: Final = re.compile(r"^Loaded weight (\S+) with shape")
_EXPERT: Final = re.compile(r"^Loaded expert (\d+) of shard (w[123]) into (\w+) for layer (\S+)")
_LAYER: Final = re.compile(r"(?:^|\.)layers\.(\d+)\.")


@dataclass
class LoadLog:
    """What the log says.

    Attributes:
        quantization: the method that the engine resolved; "None" becomes None.
        told_quantization: whether it told one at all.
        moe_backend, moe_line, linear_kernel, weight_only, load_s, loaded_gib: see `EngineFacts`.
        fp8_cache_from: who said first that its cache is FP8 with scales out of the checkpoint or 1.0.
        unscaled: who said first that it has no KV scales.
        tracked: the weights tracker was on.
        drafting: a drafter was loaded.
        names_tensors: whether the loaders spoke.
        experts: (drafter?, layer, expert, shard, parameter) that were loaded.
        decoder, drafter: names of the other tensors, without what the modules around them are called.
    """

    quantization: str | None = None
    told_quantization: bool = False
    moe_backend: str | None = None
    moe_line: str | None = None
    linear_kernel: str | None = None
    weight_only: bool = False
    fp8_cache_from: Part | None = None
    unscaled: Part | None = None
    load_s: float | None = None
    loaded_gib: float | None = None
    tracked: bool = False
    drafting: bool = False
    names_tensors: bool = False
    experts: set[tuple[bool, int, int, str, str]] = field(default_factory=set)
    decoder: set[str] = field(default_factory=set)
    drafter: set[str] = field(default_factory=set)

    @property
    def kv_scales(self) -> KvScales | None:
        """Of the target; see `EngineFacts`."""
        if self.unscaled == "target":
            return "1.0"
        return "checkpoint" if self.fp8_cache_from == "target" else None

    @property
    def kv_scales_drafter(self) -> KvScales | None:
        """Of the drafter; not known where the target has said what the drafter would say again."""
        if not self.drafting or self.unscaled == "target":
            return None
        if self.unscaled == "drafter":
            return "1.0"
        return "checkpoint" if self.fp8_cache_from is not None else None


def read_load_log(lines: Iterable[LogLine]) -> LoadLog:
    """Reads a log from its start."""
    log = LoadLog()
    names = log.decoder
    for line in lines:
        message = line.message
        if found := _EXPERT.match(message):
            layer = _LAYER.search(found[4] + ".")
            key = (found[4].startswith("mtp."), int(layer[1]) if layer else -1, int(found[1]), found[2], found[3])
            log.experts.add(key)
            log.names_tensors = True
        elif found := _WEIGHT.match(message):
            names.add(found[1])
            log.names_tensors = True
        elif message.startswith(_DRAFTER):
            names, log.drafting = log.drafter, True
        else:
            _read_fact(log, message)
            _read_kv_scales(log, message)
    return log


def _read_fact(log: LoadLog, message: str) -> None:
    if found := _QUANTIZATION.match(message):
        log.told_quantization = True
        log.quantization = None if found[1] == "None" else found[1]
    elif found := _MOE.match(message):
        # With a drafter there are two: its experts are not quantized. The quantized ones are what matters.
        if log.moe_line is None or "NvFp4" in message:
            log.moe_backend, log.moe_line = found[1], message
    elif found := _LINEAR.match(message):
        log.linear_kernel = found[1]
    elif _ARGUMENTS.match(message):
        log.tracked = True
    elif _WEIGHT_ONLY in message:
        log.weight_only = True
    elif found := _LOAD.match(message):
        log.load_s = (log.load_s or 0.0) + float(found[1])
    elif found := _MEMORY.match(message):
        log.loaded_gib = float(found[1])


def _read_kv_scales(log: LoadLog, message: str) -> None:
    speaker: Part = "drafter" if log.drafting else "target"
    if message.startswith(_FP8_CACHE):
        log.fp8_cache_from = log.fp8_cache_from or speaker
    elif message.startswith(_NO_KV_SCALES):
        log.unscaled = log.unscaled or speaker


def read_log_file(path: Path) -> LoadLog:
    """Reads the log of an engine that has been started."""
    splitter = LineSplitter()

    def lines() -> Iterable[LogLine]:
        with path.open("rb") as file:
            while piece := file.read(1 << 20):
                yield from splitter.feed(piece)
        yield from splitter.flush()

    return read_load_log(lines())


def engine_facts(started: EngineStarted, log: LoadLog | None) -> EngineFacts:
    """What is known of the engine.

    Args:
        started: by the engine itself.
        log: None where it is not ours to read.
    """
    return EngineFacts(
        version=started.version,
        argv=started.argv,
        ready_s=started.ready_s,
        quantization=log.quantization if log else None,
        moe_backend=log.moe_backend if log else None,
        moe_line=log.moe_line if log else None,
        linear_kernel=log.linear_kernel if log else None,
        weight_only=log.weight_only if log else None,
        kv_scales=log.kv_scales if log else None,
        kv_scales_drafter=log.kv_scales_drafter if log else None,
        load_s=log.load_s if log else None,
        loaded_gib=log.loaded_gib if log else None,
    )


def logging_config() -> str:
    """Python's logging configuration (JSON) for `VLLM_LOGGING_CONFIG_PATH`: vLLM's own, and the loaders at DEBUG."""
    config: dict[str, Any] = {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "vllm": {
                "class": "vllm.logging_utils.NewLineFormatter",
                "datefmt": "%m-%d %H:%M:%S",
                "format": "%(levelname)s %(asctime)s [%(fileinfo)s:%(lineno)d] %(message)s",
            }
        },
        "handlers": {
            "vllm": {
                "class": "logging.StreamHandler",
                "formatter": "vllm",
                "level": "DEBUG",
                "stream": "ext://sys.stdout",
            }
        },
        "loggers": {
            "vllm": {"handlers": ["vllm"], "level": "INFO", "propagate": False},
            **{name: {"level": "DEBUG"} for name in LOADERS},
        },
    }
    return json.dumps(config, indent=1)
