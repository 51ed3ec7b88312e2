"""What an engine has compiled, by the folders that its environment names."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from bench.engine.caches import cache_environment
from bench.engine.compile_cache import named_caches
from bench.engine.compiled import NOT_NAMED, FoldersHere, Look, Since, could_not
from bench.observe.compiled import FILES_LISTED, Cache

NOON = 1_800_000_000.0
SINCE = Since(written=NOON, first=NOON)


def test_every_folder_that_we_choose_is_looked_into(tmp_path: Path) -> None:
    env = cache_environment(tmp_path)
    for number, variable in enumerate(sorted(env)):
        name = ".cache/flashinfer/code" if variable == "FLASHINFER_WORKSPACE_BASE" else "code"
        name = "torch_compile_cache/code" if variable == "VLLM_CACHE_ROOT" else name
        file = tmp_path / env[variable] / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")
        os.utime(file, (NOON + number, NOON + number))
    look = FoldersHere.of(env).since(SINCE)
    assert (look.count, look.why_not, look.replica) == (len(env), None, None)
    assert [cache for _, cache, _ in look.files] == [
        *("cuda", "cute_dsl", "deep_gemm", "flashinfer", "fmha_sm100", "inductor", "triton", "tvm_ffi"),
        "torch_compile",
    ]


def test_a_name_for_each_that_a_report_may_hold(tmp_path: Path) -> None:
    named = named_caches(cache_environment(tmp_path))
    assert named is not None
    assert set(named) == set(Cache.__args__)  # type: ignore[attr-defined]  # a Literal's


def test_what_vllm_keeps_beside_compiled_code_is_none(tmp_path: Path) -> None:
    for name in ("modelinfos/x.json", "startup_plan/x.json", "flashinfer_autotune_cache/x/y.json"):
        file = tmp_path / "vllm" / name
        file.parent.mkdir(parents=True)
        file.write_text("{}")
    (tmp_path / "made-with.json").write_text("{}")
    assert FoldersHere.of(cache_environment(tmp_path)).since(Since(written=0.0, first=0.0)).count == 0


@pytest.mark.parametrize("missing", sorted(cache_environment(Path("/x"))))
def test_folders_that_an_engine_shares_with_others_tell_nothing_of_it(tmp_path: Path, missing: str) -> None:
    env = cache_environment(tmp_path)
    del env[missing]
    assert FoldersHere.of(env).since(SINCE) == could_not(NOT_NAMED)


def test_a_folder_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "triton").write_text("not a folder\x1b[2J")
    look = FoldersHere.of(cache_environment(tmp_path)).since(SINCE)
    assert (look.count, look.files) == (None, ())
    assert "Not a directory" in (look.why_not or "")


def test_a_reason_is_short_and_commands_no_terminal() -> None:
    assert could_not("\x1b[2J" + "x" * 1000).why_not == "?[2J" + "x" * 296


def test_the_same_folders_are_one_place(tmp_path: Path) -> None:
    assert FoldersHere.of(cache_environment(tmp_path)) == FoldersHere.of(cache_environment(tmp_path))
    assert FoldersHere.of(cache_environment(tmp_path)) != FoldersHere.of(cache_environment(tmp_path / "other"))


def one_file(path: str) -> str:
    return json.dumps({"count": 1, "files": [[1, "triton", path]]})


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "[" * 100_000,
        "[]",
        '{"count": -1}',
        '{"count": 1e999}',
        '{"count": 1, "files": [[NaN, "triton", "x"]]}',
        '{"count": 1, "files": [[1, "of nobody", "x"]]}',
        one_file("\x1b[2J"),
        one_file("\ud800"),
        one_file(""),
        one_file("x" * 201),
        '{"count": 1, "files": [[1, "triton"]]}',
        json.dumps({"count": 9999, "files": [[1, "triton", "x"]] * (FILES_LISTED + 1)}),
        json.dumps({"why_not": "x" * 301}),
        '{"count": 0, "and": 1}',
        "{}",
        json.dumps({"count": 10**4000, "files": [[1, "triton", "x"]] * FILES_LISTED}),
        '{"count": 5}',
        '{"count": 0, "why_not": "both"}',
    ],
)
def test_an_answer_that_is_none_is_not_taken(answer: str) -> None:
    with pytest.raises(ValidationError):
        Look.model_validate_json(answer)
