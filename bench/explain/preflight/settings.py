"""The settings that an engine will really have: the recipe's flags, and vLLM's own defaults where it has none.

Defaults: `EngineArgs` and `get_batch_defaults` in vllm/engine/arg_utils.py, `CacheConfig.gpu_memory_utilization` in
vllm/config/cache.py, `MambaModelConfig` in vllm/model_executor/models/config.py, vLLM 0.26.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

from bench.errors import UsageError
from bench.explain.preflight.releases import Release, check_flags, release_of
from bench.report.disclosure import json_table
from recipes.parallel import parallel_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recipes.schema import Recipe

GraphMode: TypeAlias = Literal["NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"]
GRAPH_MODES: Final[tuple[GraphMode, ...]] = ("NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE")

_GIB: Final = 1 << 30
_UTILIZATION: Final = 0.92
_GPU_SEQUENCES, _GPU_TOKENS = 1024, 8192
"""Of a server on a card of 70 GiB and more that is no A100."""
_CPU_SEQUENCES, _CPU_TOKENS = 128, 2048
GPU_BLOCK, CPU_BLOCK = 16, 128
"""Smallest block of the attention kernel that is used there, in tokens; every block is a multiple."""
_DTYPES: Final = {"float32": 4, "bfloat16": 2, "float16": 2}
_NOT_MODELLED: Final = frozenset(
    {
        "cpu_offload_gb",
        "decode_context_parallel_size",
        "enable_lora",
        "kv_cache_dtype_skip_layers",
        "kv_transfer_config",
        "mamba_block_size",
        "num_gpu_blocks_override",
        "performance_mode",
    }
)
_MTP: Final = frozenset({"mtp", "qwen3_5_mtp"})

_Kind = TypeVar("_Kind", bool, int, str)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the engine is told, defaults filled in.

    Attributes:
        release: whose rules apply.
        cpu: it runs on the CPU: no graphs, and the cache's size is given.
        max_model_len: the longest context; None where the model's own holds.
        max_num_seqs: sequences that run at once.
        max_num_batched_tokens: tokens of one step.
        utilization: `--gpu-memory-utilization`.
        kv_cache_bytes: a size given for the KV cache; None where what is left decides.
        kv_bytes: bytes of one number in the KV cache.
        prefix_caching: prefixes are cached. Off by default for hybrid models.
        prefix_match_unit: `--prefix-match-unit`; None where it is not set.
        state_bytes, conv_bytes: bytes of one number of a GDN state and of its convolution's inputs; None where the
            model decides.
        block_alignment: blocks are multiples of this many tokens: the larger of `--block-size` and the smallest block
            of the attention kernel.
        draft_tokens: k of speculative decoding; 0 without.
        acceptance: tokens a step that the recipe states (synthetic acceptance); None where the model decides.
        vision: the vision tower is loaded.
        graph_mode: `cudagraph_mode` as asked for; the engine may lower it.
        capture_sizes: as asked for; None for the engine's own list.
        max_capture: as asked for; None for the engine's own.
        graphs_estimated: the start estimates the memory of graphs and keeps it free. The second model runner does not.
        tensor, data: GPUs that share a data-parallel rank, and such ranks.
        expert_parallel: whole experts are divided among the GPUs, instead of each one by its width.
        defaulted: names of the settings above that the recipe does not give.
        not_modelled: flags of the recipe that change the plan in a way that is not known here.
    """

    release: Release
    cpu: bool
    max_model_len: int | None
    max_num_seqs: int
    max_num_batched_tokens: int
    utilization: float
    kv_cache_bytes: int | None
    kv_bytes: int
    prefix_caching: bool
    prefix_match_unit: int | None
    state_bytes: int | None
    conv_bytes: int | None
    block_alignment: int
    draft_tokens: int
    acceptance: float | None
    vision: bool
    graph_mode: GraphMode
    capture_sizes: tuple[int, ...] | None
    max_capture: int | None
    graphs_estimated: bool
    tensor: int
    data: int
    expert_parallel: bool
    defaulted: tuple[str, ...]
    not_modelled: tuple[str, ...]


class _Flags:
    """The recipe's flags, asked by name and kind."""

    def __init__(self, flags: Mapping[str, Any]) -> None:
        self._flags = flags
        self.defaulted: list[str] = []

    def get(self, name: str, kind: type[_Kind], default: _Kind) -> _Kind:
        found = self.optional(name, kind)
        if found is None:
            self.defaulted.append(name)
            return default
        return found

    def optional(self, name: str, kind: type[_Kind]) -> _Kind | None:
        value = self._flags.get(name)
        if value is None:
            return None
        if type(value) is not kind:  # a boolean is an int, and no number of anything
            raise _wrong(name, value, kind.__name__)
        return value

    def share(self, name: str, default: float) -> float:
        value = self._flags.get(name)
        if value is None:
            self.defaulted.append(name)
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
            raise _wrong(name, value, "share above 0 and at most 1")
        return float(value)

    def table(self, name: str) -> Mapping[str, Any]:
        return json_table(self._flags.get(name))


def settings_of(recipe: Recipe) -> Settings:
    """The settings of a recipe's engine.

    Raises:
        UsageError: a flag that the release does not have, a value of the wrong kind, or something that no plan is made
            for (layers divided among GPUs, other draft models).
    """
    given = recipe.engine.flags
    release = release_of(recipe.engine.version)
    check_flags(given, release)
    flags, cpu = _Flags(given), recipe.hardware.kind == "cpu"
    parallel = parallel_of(given)
    if parallel.pipeline * parallel.context > 1:
        raise UsageError(
            f"the engine's flags ask for {parallel.words}: plans are made for tensor and data parallel only.",
            remedy="Plan the recipe without the others.",
        )
    compilation = flags.table("compilation_config")
    draft, acceptance = _speculation(flags.table("speculative_config"))
    sequences = flags.get("max_num_seqs", int, _CPU_SEQUENCES if cpu else _GPU_SEQUENCES)
    tokens = flags.get("max_num_batched_tokens", int, _CPU_TOKENS if cpu else _GPU_TOKENS)
    sizes = _sizes(given, compilation)
    return Settings(
        release=release,
        cpu=cpu,
        max_model_len=flags.optional("max_model_len", int),
        max_num_seqs=_positive("max_num_seqs", sequences),
        max_num_batched_tokens=_positive("max_num_batched_tokens", tokens),
        utilization=flags.share("gpu_memory_utilization", _UTILIZATION),
        kv_cache_bytes=flags.optional("kv_cache_memory_bytes", int) or (_cpu_cache(recipe) if cpu else None),
        kv_bytes=_kv_bytes(flags.get("kv_cache_dtype", str, "auto")),
        prefix_caching=flags.get("enable_prefix_caching", bool, False),
        prefix_match_unit=flags.optional("prefix_match_unit", int),
        state_bytes=_dtype_bytes(flags, "mamba_ssm_cache_dtype"),
        conv_bytes=_dtype_bytes(flags, "mamba_cache_dtype"),
        block_alignment=max(flags.get("block_size", int, 0), CPU_BLOCK if cpu else GPU_BLOCK),
        draft_tokens=draft,
        acceptance=acceptance,
        vision=not flags.get("language_model_only", bool, False),
        graph_mode="NONE" if cpu or flags.optional("enforce_eager", bool) else _graph_mode(compilation),
        capture_sizes=sizes,
        max_capture=_max_capture(given, compilation),
        graphs_estimated=recipe.engine.env.get("VLLM_USE_V2_MODEL_RUNNER") != "1",
        tensor=parallel.tensor,
        data=parallel.data,
        expert_parallel=flags.optional("enable_expert_parallel", bool) or False,
        defaulted=tuple(flags.defaulted),
        not_modelled=tuple(name for name in given if name in _NOT_MODELLED),
    )


def _speculation(config: Mapping[str, Any]) -> tuple[int, float | None]:
    """Draft tokens, and the acceptance that is stated."""
    if not config:
        return 0, None
    method, count = config.get("method"), config.get("num_speculative_tokens")
    if method not in _MTP:
        raise UsageError(
            f"engine.flags.speculative_config.method is {method!r}: what other draft models take is not known here.",
            remedy='Plans are made for "mtp", and for engines without speculative decoding.',
        )
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise _wrong("speculative_config.num_speculative_tokens", count, "number from 1")
    stated = config.get("synthetic_acceptance_length")
    return count, float(stated) if isinstance(stated, int | float) else None


def _graph_mode(compilation: Mapping[str, Any]) -> GraphMode:
    mode = str(compilation.get("cudagraph_mode", "FULL_AND_PIECEWISE")).upper()
    for known in GRAPH_MODES:
        if mode == known:
            return known
    raise _wrong("compilation_config.cudagraph_mode", mode, f"one of {', '.join(GRAPH_MODES)}")


def _sizes(flags: Mapping[str, Any], compilation: Mapping[str, Any]) -> tuple[int, ...] | None:
    """The capture sizes asked for: they stand in the compilation config, or as a flag of their own."""
    sizes = compilation.get("cudagraph_capture_sizes", flags.get("cudagraph_capture_sizes"))
    if sizes is None:
        return None
    if not isinstance(sizes, list) or not sizes or not all(type(s) is int and s > 0 for s in sizes):
        raise _wrong("cudagraph_capture_sizes", sizes, "list of numbers from 1")
    return tuple(sizes)


def _max_capture(flags: Mapping[str, Any], compilation: Mapping[str, Any]) -> int | None:
    largest = compilation.get("max_cudagraph_capture_size", flags.get("max_cudagraph_capture_size"))
    if largest is None:
        return None
    if type(largest) is not int or largest < 1:
        raise _wrong("max_cudagraph_capture_size", largest, "number from 1")
    return largest


def _kv_bytes(dtype: str) -> int:
    if dtype in ("auto", "bfloat16", "float16"):
        return 2
    if dtype in ("fp8", "fp8_e4m3", "fp8_e5m2"):
        return 1
    raise UsageError(
        f"engine.flags.kv_cache_dtype is {dtype!r}, whose size is not known here.",
        remedy="Known: auto, bfloat16, float16, fp8, fp8_e4m3, fp8_e5m2.",
    )


def _cpu_cache(recipe: Recipe) -> int:
    """The CPU engine is told its cache in GiB by an environment variable."""
    text = recipe.engine.env.get("VLLM_CPU_KVCACHE_SPACE", "")
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(
            f"engine.env.VLLM_CPU_KVCACHE_SPACE is {text!r}: how large the cache will be cannot be known.",
            remedy="Set it to a whole number of GiB; without it the engine takes a share of what is free at its start.",
        )
    return int(text) * _GIB


def _dtype_bytes(flags: _Flags, name: str) -> int | None:
    dtype = flags.optional(name, str)
    if dtype is None or dtype == "auto":
        return None
    if dtype not in _DTYPES:
        raise _wrong(name, dtype, f"type of {', '.join(_DTYPES)}")
    return _DTYPES[dtype]


def _positive(name: str, value: int) -> int:
    if value < 1:
        raise _wrong(name, value, "number from 1")
    return value


def _wrong(name: str, value: object, expected: str) -> UsageError:
    return UsageError(f"engine.flags.{name} is {value!r}.", remedy=f"It must be a {expected}.")
