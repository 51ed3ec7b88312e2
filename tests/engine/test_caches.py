from __future__ import annotations

from pathlib import Path

import pytest

from bench.engine.caches import cache_environment, cache_folder, is_cold


def test_everything_stays_in_the_folder(tmp_path: Path) -> None:
    environment = cache_environment(tmp_path)
    assert len(set(environment.values())) == len(environment)
    assert all(Path(value).is_relative_to(tmp_path) for value in environment.values())
    # vLLM puts it there by itself; another place would make a carried folder's kernels unknown to it.
    assert environment["DG_JIT_CACHE_DIR"] == f"{environment['VLLM_CACHE_ROOT']}/deep_gemm"


def test_another_fingerprint_is_another_folder(tmp_path: Path) -> None:
    assert cache_folder(tmp_path, "ab" * 32) == tmp_path / "abababababab"


@pytest.mark.parametrize(
    "made",
    [
        "vllm/torch_compile_cache/x",
        "vllm/deep_gemm/kernel.x/kernel.cubin",
        "triton/ABC/kernel.cubin",
        "flashinfer/.cache/flashinfer/0.6.14/90/x.so",
    ],
)
def test_a_folder_with_something_compiled_is_warm(tmp_path: Path, made: str) -> None:
    assert is_cold(tmp_path / "nowhere")
    (tmp_path / "vllm" / "modelinfos").mkdir(parents=True)
    (tmp_path / "vllm" / "modelinfos" / "model.json").write_text("{}")
    (tmp_path / "triton").mkdir()
    assert is_cold(tmp_path), "what vLLM noted about a model is nothing compiled"
    (tmp_path / made).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / made).write_text("x")
    assert not is_cold(tmp_path)
