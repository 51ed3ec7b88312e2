"""One folder for everything that an engine compiles, so that it can be kept, moved and counted as cold or warm.

A start from nothing compiles for minutes; what it made is found by the next start of the same recipe. Read in the
sources of vLLM 0.26.0 (vllm/envs.py, compilation/, utils/deep_gemm.py, third_party/fmha_sm100/jit.py), FlashInfer
0.6.14 (jit/env.py), apache-tvm-ffi 0.1.10, Triton 3.6.0 (knobs.py), torch 2.11.0 (_inductor) and the CuTe DSL 4.6.0:

- vLLM sets `TORCHINDUCTOR_CACHE_DIR` and, with torch.compile, `TRITON_CACHE_DIR` itself, to folders below its own
  root. What is compiled before that, or without, goes where we say.
- vLLM sets `DG_JIT_CACHE_DIR` to `deep_gemm` below its root unless it is set: we say the same place.
- FlashInfer puts `.cache/flashinfer` below its base, compiled code and downloaded cubins alike.
- CUDA's driver keeps what it translates from PTX.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.engine import compile_cache

if TYPE_CHECKING:
    from pathlib import Path


def cache_folder(root: Path, fingerprint: str) -> Path:
    """The folder of one recipe's caches.

    Another fingerprint is another folder: no start finds what another recipe compiled.

    Args:
        root: of all caches.
        fingerprint: see `recipes.fingerprint`.
    """
    return root / fingerprint[:12]


def cache_environment(folder: Path) -> dict[str, str]:
    """Environment variables that make an engine keep everything it compiles in `folder`, which need not exist."""
    vllm = folder / "vllm"
    return {
        "VLLM_CACHE_ROOT": str(vllm),
        "DG_JIT_CACHE_DIR": str(vllm / "deep_gemm"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "FLASHINFER_WORKSPACE_BASE": str(folder / "flashinfer"),
        "TVM_FFI_CACHE_DIR": str(folder / "tvm-ffi"),
        "CUTE_DSL_CACHE_DIR": str(folder / "cute-dsl"),
        "MINFER_FMHA_CACHE_DIR": str(folder / "fmha-sm100"),
        "CUDA_CACHE_PATH": str(folder / "cuda"),
    }


def is_cold(folder: Path) -> bool:
    """Whether an engine that keeps its caches in `folder` has nothing compiled there yet."""
    return compile_cache.is_cold(cache_environment(folder))
