"""Where an engine keeps what it has compiled, and whether it has compiled anything yet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def compile_caches(env: Mapping[str, str]) -> list[Path]:
    """The folders of torch.compile, Triton, FlashInfer and DeepGEMM under vLLM 0.26.0.

    Args:
        env: the engine's environment variables.
    """
    home = Path(env.get("HOME") or Path.home())
    cache = Path(env.get("XDG_CACHE_HOME") or home / ".cache")
    vllm = Path(env.get("VLLM_CACHE_ROOT") or cache / "vllm")
    return [
        vllm / "torch_compile_cache",
        vllm / "deep_gemm",
        Path(env.get("TRITON_CACHE_DIR") or home / ".triton" / "cache"),
        Path(env.get("FLASHINFER_WORKSPACE_BASE") or home) / ".cache" / "flashinfer",
    ]


def is_cold(env: Mapping[str, str]) -> bool:
    """Whether none of them holds anything: such a start compiles what a later one finds."""
    return not any(folder.is_dir() and any(folder.iterdir()) for folder in compile_caches(env))
