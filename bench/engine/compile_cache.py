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


def named_caches(env: Mapping[str, str]) -> dict[str, Path] | None:
    """The folder of every compiler that leaves code on disk, by the compiler; None where a folder is not named.

    Folders that an engine shares with every other program of the user (what it takes where its environment names none)
    tell nothing of it. They are ours to look into where `bench.engine.caches.cache_environment` chose them.

    Args:
        env: the engine's environment variables.
    """
    try:
        return {
            "torch_compile": Path(env["VLLM_CACHE_ROOT"]) / "torch_compile_cache",
            "deep_gemm": Path(env["DG_JIT_CACHE_DIR"]),
            "inductor": Path(env["TORCHINDUCTOR_CACHE_DIR"]),
            "triton": Path(env["TRITON_CACHE_DIR"]),
            "flashinfer": Path(env["FLASHINFER_WORKSPACE_BASE"]) / ".cache" / "flashinfer",
            "tvm_ffi": Path(env["TVM_FFI_CACHE_DIR"]),
            "cute_dsl": Path(env["CUTE_DSL_CACHE_DIR"]),
            "fmha_sm100": Path(env["MINFER_FMHA_CACHE_DIR"]),
            "cuda": Path(env["CUDA_CACHE_PATH"]),
        }
    except KeyError:
        return None


def is_cold(env: Mapping[str, str]) -> bool:
    """Whether none of them holds anything: such a start compiles what a later one finds."""
    return not any(folder.is_dir() and any(folder.iterdir()) for folder in compile_caches(env))
