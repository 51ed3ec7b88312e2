from __future__ import annotations

from pathlib import Path

import pytest

from bench.engine.child_env import child_environment, fabric_variables
from bench.engine.compile_cache import compile_caches, is_cold

PARENT = {
    "PATH": "/bin",
    "HOME": "/home/me",
    "LC_ALL": "C.UTF-8",
    "CUDA_VISIBLE_DEVICES": "3",
    "HF_TOKEN": "hf_x",
    "VLLM_USE_DEEP_GEMM": "0",
    "PYTHONPATH": "/elsewhere",
    "PYTHONDONTWRITEBYTECODE": "1",
    "AWS_SECRET_ACCESS_KEY": "no business of an engine",
}
FABRIC = {
    "NCCL_NVLS_ENABLE": "0",
    "NVSHMEM_DISABLE_NVLS": "1",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "GLOO_SOCKET_IFNAME": "lo",
}


def test_what_could_change_a_number_unseen_is_held_back() -> None:
    assert child_environment(parent=PARENT) == {
        "PATH": "/bin",
        "HOME": "/home/me",
        "LC_ALL": "C.UTF-8",
        "CUDA_VISIBLE_DEVICES": "3",
        "HF_TOKEN": "hf_x",
        "PYTHONUNBUFFERED": "1",
    }


def test_what_the_gpus_of_a_host_may_use_between_them_reaches_the_engine() -> None:
    assert fabric_variables({**PARENT, **FABRIC}) == FABRIC
    merged = child_environment({"NCCL_NVLS_ENABLE": "0 by the recipe"}, parent={**PARENT, **FABRIC})
    assert merged["TORCH_SYMM_MEM_DISABLE_MULTICAST"] == "1"
    assert merged["NCCL_NVLS_ENABLE"] == "0 by the recipe"


def test_the_recipe_wins_over_the_environment_and_both_over_the_user() -> None:
    merged = child_environment({"A": "environment", "B": "environment"}, {"B": "recipe", "HOME": "/r"}, parent=PARENT)
    assert (merged["A"], merged["B"], merged["HOME"]) == ("environment", "recipe", "/r")


def test_the_own_process_is_the_parent_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    monkeypatch.setenv("VLLM_LOGGING_LEVEL", "DEBUG")
    merged = child_environment()
    assert merged["CUDA_VISIBLE_DEVICES"] == "7"
    assert "VLLM_LOGGING_LEVEL" not in merged


def test_where_an_engine_keeps_what_it_compiles() -> None:
    home = Path("/home/me")
    assert compile_caches({"HOME": "/home/me"}) == [
        home / ".cache/vllm/torch_compile_cache",
        home / ".cache/vllm/deep_gemm",
        home / ".triton/cache",
        home / ".cache/flashinfer",
    ]
    assert compile_caches({"HOME": "/home/me", "XDG_CACHE_HOME": "/x"})[0] == Path("/x/vllm/torch_compile_cache")
    moved = {"VLLM_CACHE_ROOT": "/v", "TRITON_CACHE_DIR": "/t", "FLASHINFER_WORKSPACE_BASE": "/f"}
    assert compile_caches(moved) == [
        Path("/v/torch_compile_cache"),
        Path("/v/deep_gemm"),
        Path("/t"),
        Path("/f/.cache/flashinfer"),
    ]


def test_a_start_is_cold_until_something_was_compiled(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    assert is_cold(env)
    cache = tmp_path / ".triton" / "cache"
    cache.mkdir(parents=True)
    assert is_cold(env)
    (cache / "kernel").touch()
    assert not is_cold(env)
