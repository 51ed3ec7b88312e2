"""Which files of an engine's caches are compiled code, and which of them are new."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.engine import cache_walk
from bench.engine.cache_walk import newer

NOON = 1_800_000_000.0


def write(path: Path, *, at: float, content: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    os.utime(path, (at, at))
    return path


def look(
    folder: Path, *, name: str = "deep_gemm", first: float = 0.0, most: int = 1000
) -> tuple[int, list[tuple[float, str, str]]]:
    return newer({name: str(folder)}, since=NOON, first=first, most=most, within_s=10.0)


def test_what_was_written_since_is_listed_by_time_with_whose_it_is(tmp_path: Path) -> None:
    write(tmp_path / "gemm/cache/kernel.a/kernel.cu", at=NOON + 2)
    write(tmp_path / "gemm/cache/kernel.a/kernel.cubin", at=NOON + 9)
    write(tmp_path / "gemm/cache/kernel.b/kernel.cubin", at=NOON - 0.001)
    write(tmp_path / "triton/ABC/moe.cubin", at=NOON)
    folders = {"deep_gemm": str(tmp_path / "gemm"), "triton": str(tmp_path / "triton"), "cuda": str(tmp_path / "none")}
    assert newer(folders, since=NOON, first=NOON, most=9, within_s=10.0) == (
        3,
        [
            (NOON, "triton", "ABC/moe.cubin"),
            (NOON + 2, "deep_gemm", "cache/kernel.a/kernel.cu"),
            (NOON + 9, "deep_gemm", "cache/kernel.a/kernel.cubin"),
        ],
    )


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("inductor", "locks/c45rq7.lock"),
        ("inductor", "locks/c45rq7"),
        ("flashinfer", "0.6.14/90a/cached_ops/tmp/sampling.lock"),
        ("flashinfer", "0.6.14/90a/flashinfer_jit.log"),
        ("flashinfer", "0.6.14/90a/cached_ops/sampling/.ninja_log"),
        ("flashinfer", "0.6.14/90a/cached_ops/sampling/.ninja_deps"),
        ("flashinfer", "0.6.14/90a/cached_ops/sampling/build.ninja"),
        ("torch_compile", "ab12/rank_0_0/backbone/__pycache__/computation_graph.cpython-312.pyc"),
        ("cuda", "index"),
    ],
)
def test_what_is_no_compiled_code(tmp_path: Path, name: str, path: str) -> None:
    write(tmp_path / path, at=NOON + 1)
    assert look(tmp_path, name=name) == (0, [])


def test_an_empty_file_and_a_link_hold_no_code(tmp_path: Path) -> None:
    write(tmp_path / "cache/lock", at=NOON + 1, content="")
    elsewhere = write(tmp_path.parent / f"{tmp_path.name}-elsewhere/kernel.cu", at=NOON + 1)
    (tmp_path / "file").symlink_to(elsewhere)
    (tmp_path / "folder").symlink_to(elsewhere.parent)
    (tmp_path / "loop").symlink_to(tmp_path)
    assert look(tmp_path) == (0, [])


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("inductor", "fxgraph/l7/fl7qjj/ujpd5c"),  # no suffix
        ("inductor", "45/c45rq7.main.so"),
        ("cuda", "3/f/0123456789abcdef"),
        ("cuda", "3/index"),
        ("triton", "ABC/__grp__moe.json"),
        ("tvm_ffi", "something/of/a/later/release.bin"),
    ],
)
def test_everything_else_counts_known_or_not(tmp_path: Path, name: str, path: str) -> None:
    write(tmp_path / path, at=NOON + 1)
    assert look(tmp_path, name=name) == (1, [(NOON + 1, name, path)])


@given(
    st.lists(st.integers(-50, 150), max_size=60),
    st.integers(0, 100),
    st.integers(1, 40),
)
def test_of_too_many_those_from_the_window_on_are_listed_first(
    tmp_path_factory: pytest.TempPathFactory, ages: list[int], window: int, most: int
) -> None:
    folder = tmp_path_factory.mktemp("caches")
    for number, age in enumerate(ages):
        write(folder / f"{number}", at=NOON + age)
    count, files = look(folder, first=NOON + window, most=most)
    new = sorted(age for age in ages if age >= 0)
    in_window = [age for age in new if age >= window]
    listed = [round(written - NOON) for written, _, _ in files]
    assert count == len(new)
    assert listed == sorted(listed)
    assert len(listed) == min(count, most)
    assert [age for age in listed if age >= window] == in_window[:most]


def test_names_are_cut_and_command_no_terminal(tmp_path: Path) -> None:
    write(tmp_path / os.fsdecode(b"\x1b[2J\xff.cu"), at=NOON)
    write(tmp_path / "a" / ("b" * 250), at=NOON + 1)
    _, ((_, _, odd), (_, _, long)) = look(tmp_path)
    assert odd == "?[2J?.cu"
    assert long == "a/" + "b" * 198


def test_folders_lie_as_deep_as_they_like(tmp_path: Path) -> None:
    write(tmp_path.joinpath(*["a"] * 200, "kernel.cu"), at=NOON + 1)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 100)
    try:
        assert look(tmp_path) == (1, [(NOON + 1, "deep_gemm", "a/" * 100)])
    finally:
        sys.setrecursionlimit(limit)


def test_a_folder_that_may_not_be_read_is_no_empty_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotADirectoryError):
        look(tmp_path / "file")


def test_more_than_can_be_looked_at_in_time_is_given_up(tmp_path: Path) -> None:
    with pytest.raises(TimeoutError, match="more in the caches than can be looked at"):
        newer({"deep_gemm": str(tmp_path)}, since=NOON, first=NOON, most=1, within_s=-1.0)


def as_text(question: dict[str, object]) -> dict[str, object]:
    """What another Python answers that is handed the lines of the module."""
    program = Path(cache_walk.__file__).read_text(encoding="utf-8")
    command = [sys.executable, "-I", "-S", "-c", program, json.dumps(question)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/", env={})
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def test_it_answers_as_text_without_anything_of_ours(tmp_path: Path) -> None:
    write(tmp_path / "kernel.cu", at=NOON + 1)
    question = {"folders": {"deep_gemm": str(tmp_path)}, "since": NOON, "first": NOON, "most": 5, "within_s": 10.0}
    assert as_text(question) == {"count": 1, "files": [[NOON + 1, "deep_gemm", "kernel.cu"]]}
    wrong = as_text({**question, "folders": {"deep_gemm": str(tmp_path / "kernel.cu")}})
    assert wrong.keys() == {"why_not"}
    assert "Not a directory" in str(wrong["why_not"])
