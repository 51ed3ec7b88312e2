from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.engine.caches import (
    LABEL,
    MANIFEST,
    MadeWith,
    cache_environment,
    from_volume_labels,
    is_cold,
    made_with,
    open_caches,
    read_manifest,
    volume_labels,
    volume_name,
    why_cold,
    write_manifest,
)
from bench.errors import StreamproofError
from bench.observe.environment import Client, Environment
from bench.observe.gpu import GpuDriver
from recipes.load import load_recipe
from tests.observe.machines import gpu, host

HERE = MadeWith(
    fingerprint="ab" * 32,
    target="h200-fp8",
    engine="process",
    version="0.26.0",
    devices=("NVIDIA H200",),
    driver="580",
    packages="c" * 64,
    run="h200-fp8/20261130T040000Z-abababababab",
)

OTHERS: list[tuple[dict[str, Any], str]] = [
    ({"devices": ("NVIDIA B200",)}, "card NVIDIA B200 instead of NVIDIA H200"),
    ({"devices": ("NVIDIA H200", "NVIDIA H200")}, "card NVIDIA H200 + NVIDIA H200 instead of NVIDIA H200"),
    ({"driver": "570"}, "driver 570 instead of 580"),
    ({"version": "0.25.1"}, "engine 0.25.1 instead of 0.26.0"),
    ({"packages": "d" * 64}, "package set dddddddddddd instead of cccccccccccc"),
    ({"engine": "docker"}, "kind of engine docker instead of process"),
]


def compile_something(folder: Path) -> None:
    kernel = folder / "triton" / "ABC" / "kernel.cubin"
    kernel.parent.mkdir(parents=True)
    kernel.write_bytes(b"code")


def test_everything_stays_in_the_folder(tmp_path: Path) -> None:
    environment = cache_environment(tmp_path)
    assert len(set(environment.values())) == len(environment)
    assert all(Path(value).is_relative_to(tmp_path) for value in environment.values())
    # vLLM puts it there by itself; another place would make a carried folder's kernels unknown to it.
    assert environment["DG_JIT_CACHE_DIR"] == f"{environment['VLLM_CACHE_ROOT']}/deep_gemm"


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


def test_a_second_start_finds_what_the_first_one_compiled(tmp_path: Path) -> None:
    first = open_caches(tmp_path, HERE)
    assert is_cold(first), "what they were made with is nothing compiled"
    compile_something(first)
    later = HERE.model_copy(update={"run": "h200-fp8/later"})
    assert open_caches(tmp_path, later) == first
    assert not is_cold(first)
    assert read_manifest(first) == HERE, "from the run that began them"
    assert why_cold(tmp_path, later) == ()


@pytest.mark.parametrize(("changes", "words"), OTHERS)
def test_code_for_something_else_is_not_used_and_not_kept_quiet(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    other = HERE.model_copy(update=changes)
    compile_something(open_caches(tmp_path, other))
    here = open_caches(tmp_path, HERE)
    assert is_cold(here)
    (line,) = why_cold(tmp_path, HERE)
    assert line.endswith(f"it was made with {words}")


def test_another_recipe_is_another_folder_and_none_of_our_business(tmp_path: Path) -> None:
    other = HERE.model_copy(update={"fingerprint": "cd" * 32})
    compile_something(open_caches(tmp_path, other))
    assert is_cold(open_caches(tmp_path, HERE))
    assert why_cold(tmp_path, HERE) == ()


def test_a_use_is_remembered(tmp_path: Path) -> None:
    folder = open_caches(tmp_path, HERE)
    os.utime(folder / MANIFEST, (1, 1))
    open_caches(tmp_path, HERE)
    assert (folder / MANIFEST).stat().st_mtime > 1


@pytest.mark.parametrize("content", [None, "{", HERE.model_copy(update={"driver": "570"}).model_dump_json()])
def test_code_that_nobody_describes_is_not_executed(tmp_path: Path, content: str | None) -> None:
    folder = tmp_path / HERE.place
    compile_something(folder)
    if content is not None:
        (folder / MANIFEST).write_text(content)
    with pytest.raises(StreamproofError, match="it would be executed") as caught:
        open_caches(tmp_path, HERE)
    assert "just caches import" in caught.value.remedy


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StreamproofError, match="cannot be made: Not a directory"):
        open_caches(tmp_path / "file", HERE)


def test_a_volume_says_the_same_by_its_name_and_labels() -> None:
    assert volume_name(HERE) == f"streamproof-caches-abababababab-{HERE.key[:12]}"
    assert from_volume_labels(volume_labels(HERE)) == HERE
    for labels in (None, {}, {LABEL: "{"}, {LABEL: "{}"}):
        assert from_volume_labels(labels) is None


@given(
    st.builds(
        MadeWith,
        fingerprint=st.just("ab" * 32),
        target=st.text(),
        engine=st.sampled_from(["process", "docker"]),
        version=st.text(),
        devices=st.lists(st.text(), max_size=3).map(tuple),
        driver=st.none() | st.text(),
        packages=st.text(),
    )
)
def test_whatever_is_written_is_read_and_one_place_is_one_key(described: MadeWith) -> None:
    assert from_volume_labels(volume_labels(described)) == described
    assert (described.place == HERE.place) == (described.key[:12] == HERE.key[:12])
    assert (described.key == HERE.key) == (described.differences(HERE) == () and described.devices == HERE.devices)


def machine(driver: str | None) -> Environment:
    client = Client(python="", packages={}, packages_sha256="", commit=None, dirty=None)
    known = GpuDriver(version=driver, cuda="13.0") if driver else None
    return Environment(host=host(cpu="A CPU"), driver=known, gpus=(), client=client, variables={})


def test_what_a_start_here_is_made_with() -> None:
    recipe = load_recipe("cpu")
    common = {"fingerprint": "ab" * 32, "engine": "process", "packages": "p"}
    on_gpus = made_with(recipe, machine=machine("580.159.03"), gpus=[gpu(name="B"), gpu(name="A")], **common)  # type: ignore[arg-type]
    assert (on_gpus.devices, on_gpus.driver, on_gpus.version) == (("A", "B"), "580", recipe.engine.version)
    on_cpu = made_with(recipe, machine=machine("580.159.03"), gpus=[], **common)  # type: ignore[arg-type]
    assert (on_cpu.devices, on_cpu.driver) == (("A CPU",), None), "an idle card's driver decides nothing"


def test_a_manifest_of_a_later_version_is_not_understood(tmp_path: Path) -> None:
    write_manifest(tmp_path, HERE)
    path = tmp_path / MANIFEST
    path.write_text(path.read_text().replace('"schema": 1', '"schema": 2'))
    assert read_manifest(tmp_path) is None
