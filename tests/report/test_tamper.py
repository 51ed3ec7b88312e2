"""Reports that somebody has changed, each refused with the right reason.

First by somebody without a trusted key: the digests or the signature catch it. Then by somebody with one, who signs
again so that every digest fits: only computing it again can catch that.
"""

import base64
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from bench.errors import Exit
from bench.observe.observations import Finished, Observation
from bench.records import RequestRecord
from bench.report import folder_files as files
from bench.report import keys, sign
from bench.report import verify as verification
from bench.report.folder import rendered
from bench.report.folder_evidence import evidence_of, read_records
from bench.report.table import SCHEMA
from tests.report.factories import healthy_observations, healthy_records, make_started
from tests.report.folders import Signed, signed


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Signed:
    records: list[RequestRecord] = []
    observations: list[Observation] = [make_started()]
    for point in range(2):
        new = healthy_records([0.5 + 0.001 * (number % 40) for number in range(120)], point=point, at=1000.0 * point)
        records += new
        observations += healthy_observations(new, point=point, at=1000.0 * point)
    observations.append(Finished(t=2000.0, run=0))
    return signed(tmp_path_factory.mktemp("honest"), records, observations)


@pytest.fixture
def report(honest: Signed, tmp_path: Path) -> Signed:
    return honest.copy(tmp_path / "copy")


def flip(path: Path, at: int) -> None:
    """Changes one bit of one byte."""
    raw = bytearray(path.read_bytes())
    raw[at] ^= 1
    path.write_bytes(bytes(raw))


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) >= 1
    path.write_text(text.replace(old, new, 1))


def refusals(report: Signed) -> dict[str, str]:
    found = report.verify()
    assert not found.verified
    assert found.exit_code is Exit.FAILURE
    assert found.report is None or verification.FIGURES in found.passed
    reasons: dict[str, list[str]] = {}
    for finding in found.findings:
        reasons.setdefault(finding.file, []).append(finding.reason)
    return {file: "\n".join(lines) for file, lines in reasons.items()}


def test_the_honest_report_is_verified(honest: Signed) -> None:
    found = honest.verify()
    assert found.findings == ()
    assert found.passed == verification.STEPS
    assert found.exit_code is Exit.OK
    assert found.report == honest.report
    assert found.key is not None
    assert found.key.key_id == honest.signer.key_id
    assert found.notes == ()


SIGNED_FILES = [*files.EVIDENCE, *files.RENDERED, files.engine_log(0), files.TEST_RESULT]


@pytest.mark.parametrize("name", SIGNED_FILES)
@pytest.mark.parametrize("place", [0.0, 0.5, 1.0])
def test_one_changed_byte_in_a_signed_file(report: Signed, name: str, place: float) -> None:
    flip(report.path / name, round(place * ((report.path / name).stat().st_size - 1)))
    assert refusals(report) == {name: "was changed after it was signed: its SHA-256 is another one"}


def test_one_changed_byte_anywhere_in_the_attestation_or_the_key(report: Signed) -> None:
    for name in (files.ATTESTATION, files.SIGNER):
        raw = (report.path / name).read_bytes()
        for at in range(0, len(raw), 7):
            flip(report.path / name, at)
            assert set(refusals(report)) <= {files.ATTESTATION, files.SIGNER}, f"{name}, byte {at}"
            (report.path / name).write_bytes(raw)
    assert report.verify().verified


def test_a_swapped_key(report: Signed, tmp_path: Path) -> None:
    other = keys.own_signer(tmp_path / "other")
    (report.path / files.SIGNER).write_bytes(keys.public_pem(other.public))
    assert refusals(report) == {
        files.SIGNER: f"holds key {other.key_id}, but the report was signed with {report.signer.key_id} (your own key)"
    }


def test_signed_again_by_an_unknown_key(report: Signed, tmp_path: Path) -> None:
    stranger = keys.own_signer(tmp_path / "stranger")
    replace(report, signer=stranger).sign_again()
    assert refusals(report) == {files.ATTESTATION: f"signed by a key that is not trusted here: {stranger.key_id}"}


def test_the_attestation_of_another_report(report: Signed, tmp_path: Path) -> None:
    records = healthy_records([0.4] * 80)
    other = signed(tmp_path / "other", records, healthy_observations(records))
    shutil.copy(other.path / files.ATTESTATION, report.path)
    shutil.copy(other.path / files.SIGNER, report.path)
    found = verification.verify(report.path, report.trusted | other.trusted)
    assert {finding.file for finding in found.findings} >= {files.RECORDS, files.REPORT, files.OBSERVATIONS}


@pytest.mark.parametrize("name", SIGNED_FILES)
def test_a_missing_file(report: Signed, name: str) -> None:
    (report.path / name).unlink()
    assert refusals(report) == {name: "is missing, but was signed"}


@pytest.mark.parametrize("name", files.UNSIGNED)
def test_a_report_without_signature_or_key(report: Signed, name: str) -> None:
    (report.path / name).unlink()
    assert refusals(report) == {name: "is missing"}


def test_a_file_that_was_added(report: Signed) -> None:
    (report.path / "engine-1.log").write_text("a log of a run that never was")
    assert refusals(report) == {"engine-1.log": "is not among the signed files"}
    (report.path / "run.sh").write_text("rm -rf ~")
    assert refusals(report) == {"run.sh": "no report has a file of this name"}


def test_an_attestation_that_names_a_path_out_of_the_folder(report: Signed) -> None:
    digests = {path.name: files.file_sha256(path) for path in report.path.iterdir() if path.name not in files.UNSIGNED}
    hostile = digests | {"../../../etc/passwd": files.file_sha256(Path("/etc/passwd")), "\x1b[2J": "0" * 64}
    summary = sign.predicate(report.report, "")
    (report.path / files.ATTESTATION).write_bytes(sign.bundle(sign.statement(hostile, summary), report.signer))
    assert refusals(report) == {
        "../../../etc/passwd": "is missing, but was signed",
        "\\x1b[2J": "is missing, but was signed",
    }


def test_an_attestation_that_leaves_a_file_out(report: Signed) -> None:
    (report.path / files.PAGE).unlink()
    report.sign_again()
    assert refusals(report) == {files.PAGE: "is missing"}


# From here on the one who changes the report has a trusted key and signs again: every digest fits.


def edit_json(path: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    value = json.loads(path.read_bytes())
    edit(value)
    path.write_bytes(files.canonical_json(value))


def with_column(table: pa.Table, name: str, values: NDArray[Any]) -> pa.Table:
    return table.set_column(SCHEMA.get_field_index(name), SCHEMA.field(name), pa.chunked_array([pa.array(values)]))


def test_a_doctored_mean(report: Signed) -> None:
    edit_json(report.path / files.REPORT, lambda r: r["points"][0]["e2e"].update(mean=0.4))
    report.sign_again()
    reason = refusals(report)[files.REPORT]
    assert reason.startswith("points[0].e2e.mean is 0.4; computed again: 0.51")


def test_an_edited_verdict_in_every_rendering(report: Signed) -> None:
    verdicts = {claim.id: claim.verdict for claim in report.report.claims}
    assert verdicts["forty"] == "not reproduced"
    for name in files.RENDERED:
        text = (report.path / name).read_text()
        (report.path / name).write_text(text.replace("not reproduced", "reproduced"))
    report.sign_again()

    assert "claims[1].verdict is 'reproduced'; computed again: 'not reproduced'" in refusals(report)[files.REPORT]


def test_a_doctored_report_with_pages_to_match(report: Signed) -> None:
    """Somebody who runs our own renderer over a changed report.json."""
    better = report.report.model_copy(update={"exit_code": 0, "title": "The fastest"})
    evidence = evidence_of(
        (report.path / files.RECIPE).read_bytes(),
        (report.path / files.ENVIRONMENT).read_bytes(),
        (report.path / files.OBSERVATIONS).read_bytes(),
        read_records(report.path / files.RECORDS),
    )
    for name, content in rendered(better, evidence).items():
        (report.path / name).write_bytes(content)
    replace(report, report=better).sign_again()
    found = report.verify()
    assert [finding.reason for finding in found.findings] == [
        "exit_code is 0; computed again: 3",
        "title is 'The fastest'; computed again: 'A test'",
    ]


def test_a_removed_record(report: Signed) -> None:
    path = report.path / files.RECORDS
    table = pq.read_table(path, schema=SCHEMA)
    pq.write_table(table.slice(0, table.num_rows - 1), path, store_schema=False)
    report.sign_again()
    found = refusals(report)
    assert set(found) == {files.REPORT}
    assert "measured is '121 complete replies'; computed again: '120 complete replies'" in found[files.REPORT]
    # What is left no longer adds up to what the engine counted.
    assert "exit_code is 3; computed again: 4" in found[files.REPORT]


def test_an_edited_record(report: Signed) -> None:
    path = report.path / files.RECORDS
    table = pq.read_table(path, schema=SCHEMA)
    done = table.column("done_s").to_numpy().copy()
    done[50] += 0.001
    pq.write_table(with_column(table, "done_s", done), path, store_schema=False)
    report.sign_again()
    assert ".e2e.mean is" in refusals(report)[files.REPORT]


def test_an_edited_claim(report: Signed) -> None:
    edit(report.path / files.RECIPE, "value_s = 0.2", "value_s = 2.0")
    report.sign_again()
    assert refusals(report)[files.REPORT].startswith("claims[1].")


def test_an_edited_recipe_is_another_fingerprint(report: Signed) -> None:
    edit(report.path / files.RECIPE, "mean_s = 4.0", "mean_s = 8.0")
    report.sign_again()
    found = report.verify()
    assert any(finding.reason.startswith("fingerprint is") for finding in found.findings)


def test_edited_hashes_are_another_fingerprint(report: Signed) -> None:
    edit_json(
        report.path / files.ENVIRONMENT,
        lambda e: e["provenance"]["pinned"].update(checkpoint_sha256="3" * 64),
    )
    report.sign_again()
    assert refusals(report)[files.REPORT].startswith("fingerprint is")


def test_an_edited_machine(report: Signed) -> None:
    """The driver moves no figure of this report; but the page shows it, and must show what stands in the file."""
    edit(report.path / files.ENVIRONMENT, "580.159", "999.999")
    report.sign_again()
    assert refusals(report) == {files.PAGE: "does not show what report.json says"}


def test_an_observation_taken_out(report: Signed) -> None:
    path = report.path / files.OBSERVATIONS
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if '"when":"after"' not in line))
    report.sign_again()
    assert set(refusals(report)) == {files.REPORT}


@pytest.mark.parametrize("name", [files.MARKDOWN, files.PAGE])
def test_an_edited_page(report: Signed, name: str) -> None:
    edit(report.path / name, "Not reproduced", "Reproduced")
    report.sign_again()
    assert refusals(report) == {name: "does not show what report.json says"}
    found = report.verify()
    assert verification.FIGURES in found.passed


def test_a_summary_in_the_attestation_that_contradicts_the_report(report: Signed) -> None:
    better = report.report.model_copy(update={"title": "The fastest"})
    replace(report, report=better).sign_again()
    assert refusals(report) == {files.ATTESTATION: "its summary says something else than report.json"}


def test_the_same_report_in_another_form_of_json(report: Signed) -> None:
    path = report.path / files.REPORT
    path.write_text(json.dumps(json.loads(path.read_bytes())))
    report.sign_again()
    assert refusals(report) == {files.REPORT: "is not in the form that streamproof writes: it was edited"}


HOSTILE = [
    (files.REPORT, b'{"schema_version": "1.0", "schema_version": "1.0"}', "stands in it twice"),
    (files.REPORT, b'{"schema_version": "1.0", "x": NaN}', "NaN"),
    (files.REPORT, b"[" * 200_000, "nested too deep"),
    (files.REPORT, b"[]", "has the schema 'None'"),
    (files.REPORT, b'{"schema_version": "2.0"}', "has the schema '2.0'; this version of streamproof reads '1.0'"),
    (files.REPORT, b'{"schema_version": "1.0"}', "claims is missing"),
    (files.ENVIRONMENT, b"[]", "is not a JSON object"),
    (files.ENVIRONMENT, b"{}", "provenance is not right"),
    (files.ENVIRONMENT, b'{"a": 1e999}', "not finite"),
    (files.OBSERVATIONS, b'{"kind": "finished", "t": 1, "run": 0}', "its last line (1) has no end"),
    (files.OBSERVATIONS, b'{"kind": "finished", "t": NaN, "run": 0}\n', "line 1 cannot be read"),
    (files.OBSERVATIONS, b'{"kind": "rocket", "t": 1, "run": 0}\n', "line 1 is no observation"),
    (files.OBSERVATIONS, b"\n", "line 1 cannot be read"),
    (files.RECIPE, b"\xff", "is not TOML"),
    (files.RECIPE, b"a = " + b"[" * 10_000, "is not TOML"),
    (files.RECIPE, b"a = 1", "is no recipe"),
    (files.RECORDS, b"PAR1 is not enough", "is no Parquet file"),
]


@pytest.mark.parametrize(
    ("name", "content", "reason"), HOSTILE, ids=[f"{name}-{reason}" for name, _, reason in HOSTILE]
)
def test_hostile_content_is_named(report: Signed, name: str, content: bytes, reason: str) -> None:
    (report.path / name).write_bytes(content)
    report.sign_again()
    found = refusals(report)
    assert reason in found[name]


def test_records_of_a_point_that_the_recipe_does_not_have(report: Signed) -> None:
    path = report.path / files.RECORDS
    table = pq.read_table(path, schema=SCHEMA)

    pq.write_table(with_column(table, "point", np.full(table.num_rows, 9, np.int32)), path, store_schema=False)

    report.sign_again()
    assert refusals(report) == {files.RECORDS: "names point 9; the recipe has 2, counted from 0"}


def test_records_that_break_our_arithmetic_are_refused_and_not_a_traceback(report: Signed) -> None:
    path = report.path / files.RECORDS
    table = pq.read_table(path, schema=SCHEMA)
    pq.write_table(with_column(table, "prompt_tokens", np.full(table.num_rows, 2**62)), path, store_schema=False)
    report.sign_again()
    assert refusals(report) == {files.RECORDS: "gives no report: ArrowInvalid while it was computed again"}


def test_observations_that_cannot_be_drawn_are_refused_and_not_a_traceback(report: Signed) -> None:
    gauge = '{"kind":"gauges","t":%s,"run":0,"running":1.0,"waiting":null,"kv_usage":null}\n'
    with (report.path / files.OBSERVATIONS).open("a") as file:
        file.write(gauge % "-1.7e308" + gauge % "1.7e308")
    report.sign_again()
    assert refusals(report) == {files.RECORDS: "gives no report: OverflowError while it was computed again"}


@pytest.mark.parametrize("takes", ["memory", "time"])
def test_whatever_takes_without_end_is_ended(report: Signed, monkeypatch: pytest.MonkeyPatch, takes: str) -> None:
    def build(_evidence: object) -> None:
        held: list[bytes] = []
        while True:
            if takes == "memory":
                held.append(b"x" * (1 << 28))

    monkeypatch.setattr(verification, "build_report", build)
    monkeypatch.setattr(verification, "MEMORY_BYTES", 1 << 30)
    monkeypatch.setattr(verification, "CPU_S", 30.0 if takes == "memory" else 0.05)
    (reason,) = refusals(report).values()
    bound = "1 GiB of memory" if takes == "memory" else "0 minutes of CPU time"
    assert reason == f"cannot be computed again in {bound}; a report needs far less"


def test_a_version_that_is_a_flood_of_text_is_cut_off(report: Signed) -> None:
    edit_json(report.path / files.ENVIRONMENT, lambda e: e["provenance"]["producer"].update(version="9" * 100_000))
    report.sign_again()
    found = report.verify()
    assert all(len(finding.remedy) < 300 for finding in found.findings)
    assert found.findings[0].remedy.startswith("streamproof 999")


def test_another_version_says_so_and_its_pages_are_not_compared(
    report: Signed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification, "version", lambda _name: "9.9.9")
    found = report.verify()
    assert found.verified
    assert found.passed == verification.STEPS[:-1]
    assert "were not compared" in found.notes[0]
    assert f"streamproof {version('streamproof')} made the report and this is streamproof 9.9.9" in found.notes[0]
    edit_json(report.path / files.REPORT, lambda r: r["points"][0]["e2e"].update(mean=0.4))
    report.sign_again()
    (finding,) = report.verify().findings
    assert "verify it with that version" in finding.remedy


def test_what_is_signed_is_decoded_from_the_bundle(honest: Signed) -> None:
    """The figures above rest on `sign_again` covering every file: that it does is checked against the bundle itself."""
    bundle = json.loads((honest.path / files.ATTESTATION).read_bytes())
    subjects = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))["subject"]
    assert sorted(subject["name"] for subject in subjects) == sorted(SIGNED_FILES)
