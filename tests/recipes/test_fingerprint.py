from dataclasses import replace
from pathlib import Path

import pytest

from recipes.fingerprint import Pinned, engine_fingerprint, fingerprint, folder_sha256
from recipes.load import load_recipe
from tests.report.factories import make_recipe

PINNED = Pinned(lock_sha256="a" * 64, image_digest=None, checkpoint_sha256="b" * 64, workload_version="1")


def of(overrides: dict[str, str] | None = None, pinned: Pinned = PINNED) -> str:
    return fingerprint(load_recipe("cpu", overrides), pinned)


@pytest.mark.parametrize(
    "override",
    [
        {"engine.flags.max_num_seqs": "17"},
        {"engine.env.OMP_NUM_THREADS": "'1'"},
        {"workload.caller_tokens": "25"},
        {"load.turn_gap.mean_s": "2.5"},
        {"load.ladder": "[{streams = 2}]"},
        {"hardware.cores": "3"},
        {"checkpoint.precision": "fp8"},
    ],
)
def test_everything_that_decides_the_numbers_is_in_it(override: dict[str, str]) -> None:
    assert of(override) != of()


@pytest.mark.parametrize("override", [{"title": "Another"}, {"load.runs": "3"}])
def test_what_changes_no_number_is_not(override: dict[str, str]) -> None:
    assert of(override) == of()


def test_of_a_trace_the_words_count_and_not_the_place() -> None:
    def trace(path: str, digest: str) -> str:
        return of({"load.ladder": f'[{{ trace = "{path}", trace_sha256 = "{digest * 64}" }}]'})

    assert trace("here.jsonl", "a") == trace("there.jsonl", "a") != trace("here.jsonl", "b")


def test_of_a_folder_of_ones_own_the_files_count_and_not_the_place() -> None:
    def folder(path: str, digest: str | None) -> str:
        pinned = replace(PINNED, checkpoint_sha256=digest)
        return of({"checkpoint.kind": "folder", "checkpoint.name": path}, pinned)

    assert folder("/here", "a" * 64) == folder("/there", "a" * 64) != folder("/here", "b" * 64)
    assert folder("/here", None) != folder("/there", None)  # nobody has seen its files


@pytest.mark.parametrize("key", ["lock_sha256", "image_digest", "checkpoint_sha256", "workload_version"])
def test_every_pin_is_in_it(key: str) -> None:
    values = {**PINNED.__dict__, key: "other"}
    assert of(pinned=Pinned(**values)) != of()


def of_engine(overrides: dict[str, str] | None = None, pinned: Pinned = PINNED) -> str:
    return engine_fingerprint(load_recipe("cpu", overrides), pinned)


@pytest.mark.parametrize(
    "override",
    [
        {"workload.caller_tokens": "25"},
        {"load.ladder": "[{streams = 2}]"},
        {"load.turn_gap.mean_s": "2.5"},
        {"engine.ready_timeout_s": "77"},
        {"title": "Another"},
        {"engine.flags.gpu_memory_utilization": "0.4"},
        {"engine.flags.kv_cache_memory_bytes": "4096"},
        {"engine.flags.num_gpu_blocks_override": "9"},
        {"engine.flags.cudagraph_metrics": "true"},
        {"engine.env.VLLM_LOG_STATS_INTERVAL": "'2'"},
    ],
)
def test_what_no_compiled_code_depends_on_is_for_the_same_engine(override: dict[str, str]) -> None:
    assert of_engine(override) == of_engine()
    assert of_engine(pinned=replace(PINNED, workload_version="other")) == of_engine()


@pytest.mark.parametrize(
    "override",
    [
        {"engine.flags.max_num_seqs": "17"},
        {"engine.flags.kv_cache_dtype": "'fp8'"},
        {"engine.env.OMP_NUM_THREADS": "'1'"},
        {"hardware.cores": "3"},
        {"checkpoint.precision": "fp8"},
    ],
)
def test_another_engine_is_another(override: dict[str, str]) -> None:
    assert of_engine(override) != of_engine()


@pytest.mark.parametrize("key", ["lock_sha256", "image_digest", "checkpoint_sha256"])
def test_every_pin_of_an_engine_is_in_its_own(key: str) -> None:
    assert of_engine(pinned=Pinned(**{**PINNED.__dict__, key: "other"})) != of_engine()


def test_a_folder_is_its_files_and_their_names(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.txt").write_text("1")
    (tmp_path / "sub" / "b.txt").write_text("2")
    first = folder_sha256(tmp_path)
    (tmp_path / "sub" / "b.txt").write_text("3")
    second = folder_sha256(tmp_path)
    (tmp_path / "a.txt").rename(tmp_path / "c.txt")
    assert len({first, second, folder_sha256(tmp_path)}) == 3


def test_a_new_version_does_not_change_the_fingerprint_of_a_recipe_that_did_not_change() -> None:
    """A key that is added to the schema must be None where a recipe leaves it open, or old reports do not verify."""
    assert fingerprint(make_recipe(), PINNED) == "5c3f03651968e6dab39c7f4bec6df1a0ce496451cfb396f69599c351660edeed"
