"""The stages of an engine's start, read from its log while it starts.

The markers are the lines of vLLM 0.26.0, on a GPU and on a CPU, and what other releases from 0.6 on say instead. A
marker begins a stage: what happens after it, and what fails after it, belongs to that stage. Stages only move forward;
a marker of an earlier stage (a second model being loaded, a second compilation) is that later stage's own business.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from bench.observe.observations import StageTime

if TYPE_CHECKING:
    from bench.engine.log_lines import LogLine


class Stage(StrEnum):
    """In the order in which a start goes through them. A start skips those that it does not need."""

    LAUNCH = "launch"
    """Python and vLLM are being imported."""
    CONFIG = "config-validation"
    """The model's and the command line's settings are read and checked."""
    DEVICE = "device-init"
    """The engine's own process exists and takes its device."""
    WEIGHTS = "weight-load"
    """Weights are read; with MTP also those of the draft."""
    PROFILE = "profile-run"
    """The model is compiled and run once at its largest size, to see how much memory that takes."""
    GRAPH_ESTIMATE = "graph-memory-estimate"
    """A few CUDA graphs are captured on trial, to see how much memory all will take."""
    KV_BUDGET = "serving-KV-budget"
    """What is left for the KV cache is checked against what the flags need."""
    KV_ALLOCATION = "serving-KV-alloc"
    """The KV cache is allocated."""
    KERNEL_WARMUP = "kernel-warmup/JIT"
    """Kernels are compiled and tuned."""
    GRAPH_CAPTURE = "graph-capture"
    """CUDA graphs are captured."""
    SAMPLER = "sampler/logits"
    """The sampler is warmed up."""
    SERVER = "server-start"
    """The HTTP server starts."""
    READY = "ready"
    """Requests are answered."""

    @property
    def words(self) -> str:
        """What happens, for a live display."""
        return _WORDS[self]


_WORDS: Final = {
    Stage.LAUNCH: "importing the engine",
    Stage.CONFIG: "checking settings",
    Stage.DEVICE: "taking the device",
    Stage.WEIGHTS: "loading weights",
    Stage.PROFILE: "compiling and profiling",
    Stage.GRAPH_ESTIMATE: "estimating graph memory",
    Stage.KV_BUDGET: "sizing the KV cache",
    Stage.KV_ALLOCATION: "allocating the KV cache",
    Stage.KERNEL_WARMUP: "warming up kernels",
    Stage.GRAPH_CAPTURE: "capturing CUDA graphs",
    Stage.SAMPLER: "warming up the sampler",
    Stage.SERVER: "starting the server",
    Stage.READY: "ready",
}

_ORDER: Final = {stage: position for position, stage in enumerate(Stage)}

_MARKERS: Final[tuple[tuple[str, Stage], ...]] = (
    ("non-default args:", Stage.CONFIG),
    ("vLLM API server version", Stage.CONFIG),
    ("Initializing a V1 LLM engine", Stage.DEVICE),
    ("Initializing an LLM engine", Stage.DEVICE),  # the engine before V1
    ("distributed_init_method=", Stage.DEVICE),  # where the log begins too late for the line above
    ("Starting to load model", Stage.WEIGHTS),
    ("Loading model from scratch", Stage.WEIGHTS),  # the second model runner
    ("Loading safetensors checkpoint shards", Stage.WEIGHTS),
    ("Loading weights took", Stage.WEIGHTS),
    ("Model loading took", Stage.PROFILE),
    ("Loading model weights took", Stage.PROFILE),  # before V1
    ("Warming up model for the compilation", Stage.PROFILE),  # CPU
    ("Dynamo bytecode transform time", Stage.PROFILE),
    ("Memory profiling takes", Stage.PROFILE),  # before V1
    ("Profiling CUDA graph memory:", Stage.GRAPH_ESTIMATE),
    ("Available KV cache memory:", Stage.KV_BUDGET),
    ("GiB for KV cache on node", Stage.KV_BUDGET),  # CPU
    ("GPU KV cache size:", Stage.KV_ALLOCATION),  # also on a CPU
    ("# GPU blocks:", Stage.KV_ALLOCATION),  # before V1
    ("DeepGEMM warmup", Stage.KERNEL_WARMUP),
    ("Warming up Qwen Triton kernels", Stage.KERNEL_WARMUP),
    ("[Autotuner]: Autotuning process starts", Stage.KERNEL_WARMUP),
    ("Capturing CUDA graphs", Stage.GRAPH_CAPTURE),
    ("Capturing CUDA graph shapes", Stage.GRAPH_CAPTURE),  # before 0.11
    ("Capturing cudagraphs for decoding", Stage.GRAPH_CAPTURE),  # before V1
    ("Graph capturing finished", Stage.SAMPLER),
    ("init engine (profile, create kv cache, warmup model) took", Stage.SERVER),
    ("Starting vLLM server on", Stage.SERVER),
    ("Starting vLLM API server", Stage.SERVER),  # before 0.15
    ("Available routes are:", Stage.READY),  # all that a server says of itself at --uvicorn-log-level warning
    ("Application startup complete", Stage.READY),
    ("Processed prompts:", Stage.READY),  # no server: the bar of vLLM's offline class
    ("Avg prompt throughput:", Stage.READY),  # where the log begins after the start
)

_BAR: Final = re.compile(r"^(?P<what>[^:|]+):\s+\d+%\|[^|]*\|\s*(?P<done>\d+/\d+)\b")
"""A tqdm progress bar: "DeepGEMM warmup:  45%|####  | 878/1949 [03:38<20:57,  1.17s/it]"."""


@dataclass(frozen=True, slots=True)
class LogFacts:
    """What the log says about the engine. None where it says nothing (yet).

    Attributes:
        attention_block_size: tokens of a block, where the engine had to set it (hybrid models).
        graphs: the CUDA graphs that the engine really captures, after its own rounding and dropping
            ("PIECEWISE=51 (largest=512), FULL=51 (largest=512)"; without the largest where only bars tell).
        weights_gib: memory that the weights take.
        kv_cache_tokens: tokens that the KV cache holds.
        compile_s: seconds that torch.compile took, all parts together.
        prefix_caching: whether prefixes are cached.
    """

    attention_block_size: int | None = None
    graphs: str | None = None
    weights_gib: float | None = None
    kv_cache_tokens: int | None = None
    compile_s: float | None = None
    prefix_caching: bool | None = None


_BLOCK_SIZE: Final = re.compile(r"Setting attention block size to (\d+) tokens")
_GRAPHS: Final = re.compile(r"Profiling CUDA graph memory: (.+)$")
_CAPTURED: Final = re.compile(r"^Capturing CUDA graphs \((\w+)\):\s+100%\|[^|]*\|\s*(\d+)/\2\b")
"""The end of a bar, for starts that estimate no graph memory and so do not say what they will capture."""
_WEIGHTS: Final = re.compile(r"Model loading took ([\d.]+) GiB")
_KV_TOKENS: Final = re.compile(r"GPU KV cache size: ([\d,]+) tokens")
_COMPILE: Final = re.compile(r"torch\.compile took ([\d.]+) s in total")
_PREFIX_CACHING: Final = re.compile(r"\benable_prefix_caching=(True|False)")
_ENGINE: Final = "Initializing a V1 LLM engine"


class StartUp:
    """Follows one start. Times are seconds since the engine's process was started.

    Attributes:
        stage: what happens now.
        detail: the newest figure of the stage's progress bar ("21/51"); empty where there is none.
        facts: what the log has said so far.
    """

    def __init__(self) -> None:
        self.stage = Stage.LAUNCH
        self.detail = ""
        self.facts = LogFacts()
        self._captured: dict[str, str] = {}
        self._began: list[tuple[Stage, float]] = [(Stage.LAUNCH, 0.0)]

    def feed(self, line: LogLine, at_s: float) -> None:
        """Take the next line, read at `at_s`."""
        message = line.message
        for marker, stage in _MARKERS:
            if marker in message:
                self._enter(stage, at_s)
                break
        if bar := _BAR.match(message):
            self.detail = bar["done"]
        if captured := _CAPTURED.match(message):
            self._note_captured(captured[1], captured[2])
        self._note(message)

    def stages(self, end_s: float) -> tuple[StageTime, ...]:
        """The stages so far; the last one ends at `end_s`. `Stage.READY` is no stage of the start: it has no entry."""
        ends = [*(began for _, began in self._began[1:]), end_s]
        return tuple(
            StageTime(name=stage.value, start_s=began, end_s=end)
            for (stage, began), end in zip(self._began, ends, strict=True)
            if stage is not Stage.READY
        )

    def _enter(self, stage: Stage, at_s: float) -> None:
        if _ORDER[stage] > _ORDER[self.stage]:
            self.stage = stage
            self.detail = ""
            self._began.append((stage, at_s))

    def _note_captured(self, mode: str, count: str) -> None:
        """A bar of captures is full; a line that said what will be captured, sizes and all, is kept."""
        if self.facts.graphs is None or self._captured:
            self._captured[mode] = count
            told = ", ".join(f"{each}={number}" for each, number in self._captured.items())
            self.facts = replace(self.facts, graphs=told)

    def _note(self, message: str) -> None:
        if found := _BLOCK_SIZE.search(message):
            self.facts = replace(self.facts, attention_block_size=int(found[1]))
        elif found := _GRAPHS.search(message):
            self.facts = replace(self.facts, graphs=found[1])
        elif found := _WEIGHTS.search(message):
            self.facts = replace(self.facts, weights_gib=float(found[1]))
        elif found := _KV_TOKENS.search(message):
            self.facts = replace(self.facts, kv_cache_tokens=int(found[1].replace(",", "")))
        elif found := _COMPILE.search(message):
            self.facts = replace(self.facts, compile_s=(self.facts.compile_s or 0.0) + float(found[1]))
        elif _ENGINE in message and (found := _PREFIX_CACHING.search(message)):
            self.facts = replace(self.facts, prefix_caching=found[1] == "True")
