import json
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from bench.errors import StreamproofError
from bench.observe.observations import Finished, Interrupted, Observation
from bench.records import RequestRecord
from bench.report import folder, keys
from bench.report import folder_files as files
from bench.report.folder_evidence import (
    EvidenceError,
    environment_json,
    parse_environment,
    parse_observations,
    parse_recipe,
    recipe_toml,
)
from bench.report.keys import Signer
from recipes.fingerprint import fingerprint
from recipes.load import load_recipe, targets
from tests.report.factories import healthy_observations, healthy_records, make_started
from tests.report.folders import NOW, PROVENANCE, Signed, begun, recipe_with_claims


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    return keys.own_signer(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def run() -> tuple[list[RequestRecord], list[Observation]]:
    records = healthy_records([0.5] * 80)
    return records, [make_started(), *healthy_observations(records), Finished(t=200.0, run=0)]


def verified(path: Path, signer: Signer) -> bool:
    return Signed(path, None, signer).verify().verified  # type: ignore[arg-type]


def test_the_folder_is_named_by_target_time_and_fingerprint(tmp_path: Path) -> None:
    path = folder.begin(tmp_path, recipe_with_claims(), PROVENANCE, {})
    digest = fingerprint(recipe_with_claims(), PROVENANCE.pinned)
    assert path == tmp_path / "test-h200" / f"20261130T110000Z-{digest[:12]}"
    assert sorted(entry.name for entry in path.iterdir()) == [files.ENVIRONMENT, files.RECIPE]


def test_a_folder_that_is_there_is_not_used_again(tmp_path: Path) -> None:
    folder.begin(tmp_path, recipe_with_claims(), PROVENANCE, {})
    with pytest.raises(StreamproofError, match="cannot make the report's folder"):
        folder.begin(tmp_path, recipe_with_claims(), PROVENANCE, {})


def test_names_sort_by_time_wherever_they_were_made() -> None:
    tokyo = datetime(2026, 11, 30, 1, 0, tzinfo=timezone(timedelta(hours=9)))
    assert files.folder_of(Path("r"), "t", "f" * 64, tokyo) == Path("r/t/20261129T160000Z-ffffffffffff")
    with pytest.raises(ValueError, match="time zone"):
        files.folder_of(Path("r"), "t", "f" * 64, datetime(2026, 11, 30))  # noqa: DTZ001  that is the fault


def test_a_finished_run_leaves_every_file_and_no_other(
    tmp_path: Path, signer: Signer, run: tuple[list[RequestRecord], list[Observation]]
) -> None:
    path = begun(tmp_path, *run)
    report = folder.finish(path, signer=signer, now=NOW)
    assert not report.partial
    assert {entry.name for entry in path.iterdir()} == {
        *files.EVIDENCE,
        *files.RENDERED,
        *files.UNSIGNED,
        files.TEST_RESULT,
        "engine-0.log",
    }
    assert pq.read_metadata(path / files.RECORDS).num_rows == len(run[0])
    assert (path / files.SIGNER).read_bytes() == keys.public_pem(signer.public)
    assert verified(path, signer)


def test_finishing_again_gives_the_same_report(
    tmp_path: Path, signer: Signer, run: tuple[list[RequestRecord], list[Observation]]
) -> None:
    path = begun(tmp_path, *run)
    folder.finish(path, signer=signer, now=NOW)
    before = {name: (path / name).read_bytes() for name in (*files.EVIDENCE, *files.RENDERED)}
    folder.finish(path, signer=signer, now=NOW)
    assert {name: (path / name).read_bytes() for name in before} == before


def test_a_client_killed_in_the_middle_of_a_line_leaves_a_partial_report_that_says_so(
    tmp_path: Path, signer: Signer, run: tuple[list[RequestRecord], list[Observation]]
) -> None:
    records, observations = run
    path = begun(tmp_path, records, observations[:-2])
    for name in (files.RUNNING_RECORDS, files.OBSERVATIONS):
        raw = (path / name).read_bytes()
        (path / name).write_bytes(raw[:-20])
    (path / ".report.json.0123456789abcdef").write_text("{")  # and one in the middle of a file
    report = folder.finish(path, signer=signer, now=NOW)
    assert report.partial
    assert report.partial_reason == f"the client failed: {folder.KILLED}"
    assert pq.read_metadata(path / files.RECORDS).num_rows == len(records) - 1
    last = parse_observations((path / files.OBSERVATIONS).read_bytes())[-1]
    assert isinstance(last, Interrupted)
    assert last.t == max(observation.t for observation in observations[:-3])
    assert "Partial report" in (path / files.PAGE).read_text()
    assert "Partial report" in (path / files.MARKDOWN).read_text()
    assert verified(path, signer)


def test_a_run_that_was_killed_before_its_first_request_has_a_report_too(tmp_path: Path, signer: Signer) -> None:
    path = folder.begin(tmp_path, recipe_with_claims(), PROVENANCE, {})
    report = folder.finish(path, signer=signer, now=NOW)
    assert report.partial
    assert report.points == ()
    assert verified(path, signer)


def test_an_interrupted_run_keeps_its_own_reason(
    tmp_path: Path, signer: Signer, run: tuple[list[RequestRecord], list[Observation]]
) -> None:
    stop = Interrupted(t=150.0, run=0, cause="user", detail="Ctrl-C")
    path = begun(tmp_path, run[0], [*run[1][:-1], stop])
    report = folder.finish(path, signer=signer, now=NOW)
    assert report.partial_reason == "stopped by the user: Ctrl-C"
    assert (path / files.OBSERVATIONS).read_bytes().count(b"interrupted") == 1


def test_records_survive_a_finish_that_was_killed_between_two_files(
    tmp_path: Path, signer: Signer, run: tuple[list[RequestRecord], list[Observation]], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = begun(tmp_path, *run)

    class Killed(BaseException):
        pass

    put = files.put

    def killed(temporary: Path, file: Path) -> None:
        put(temporary, file)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(files, "put", killed)
        with pytest.raises(Killed):
            folder.finish(path, signer=signer, now=NOW)
    assert (path / files.RUNNING_RECORDS).exists()
    folder.finish(path, signer=signer, now=NOW)
    assert verified(path, signer)


def test_a_full_disk_keeps_the_lines_and_says_how_to_go_on(
    tmp_path: Path, signer: Signer, run: tuple[list[RequestRecord], list[Observation]], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = begun(tmp_path, *run)

    def full(_lines: Path, _parquet: Path) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(folder, "convert", full)
        with pytest.raises(StreamproofError, match="No space left on device") as caught:
            folder.finish(path, signer=signer, now=NOW)
    assert f"just finish {path}" in caught.value.remedy
    assert (path / files.RUNNING_RECORDS).exists()
    assert not (path / files.RECORDS).exists()


def test_what_is_not_ours_is_not_signed(
    tmp_path: Path, signer: Signer, run: tuple[list[RequestRecord], list[Observation]]
) -> None:
    path = begun(tmp_path, *run)
    (path / "notes.txt").write_text("mine")
    with pytest.raises(StreamproofError, match=r"holds what no report has: notes\.txt"):
        folder.finish(path, signer=signer, now=NOW)
    assert (path / files.REPORT).exists()


def test_a_folder_of_something_else_is_named(tmp_path: Path, signer: Signer) -> None:
    with pytest.raises(StreamproofError, match=r"cannot read .*recipe\.resolved\.toml"):
        folder.finish(tmp_path, signer=signer, now=NOW)


def test_a_written_file_is_whole_or_what_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    files.write_whole(path, b"before")

    def full(_temporary: Path, _path: Path) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(files, "put", full)
        with pytest.raises(StreamproofError, match="No space left"):
            files.write_whole(path, b"after")
    assert path.read_bytes() == b"before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_canonical_json_has_one_form_and_no_nan() -> None:
    assert files.canonical_json({"b": 1, "a": ["ä"]}) == '{\n  "a": [\n    "ä"\n  ],\n  "b": 1\n}\n'.encode()
    with pytest.raises(ValueError, match="Out of range float"):
        files.canonical_json({"a": float("nan")})


@pytest.mark.parametrize("target", targets())
def test_every_recipe_survives_its_own_toml(target: str) -> None:
    recipe = load_recipe(target)
    assert parse_recipe(recipe_toml(recipe).encode()) == recipe


def test_the_environment_survives_with_its_provenance() -> None:
    machine = {"gpus": [{"name": "H200", "ecc": None}], "load": 0.25}
    environment, provenance = parse_environment(environment_json(PROVENANCE, machine))
    assert provenance == PROVENANCE
    assert {key: environment[key] for key in machine} == machine
    other = json.loads(environment_json(PROVENANCE, {})) | {"provenance": {"started_at": "yesterday"}}
    with pytest.raises(EvidenceError, match="provenance"):
        parse_environment(files.canonical_json(other))


def test_by_default_it_signs_with_the_own_key(
    tmp_path: Path, run: tuple[list[RequestRecord], list[Observation]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    path = begun(tmp_path, *run)
    folder.finish(path)
    signer = keys.own_signer()
    assert keys.keys_folder().is_relative_to(tmp_path)
    found = Signed(path, None, signer).verify()  # type: ignore[arg-type]
    assert found.verified
