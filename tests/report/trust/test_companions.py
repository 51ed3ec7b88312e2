"""Test result and model signature must be those of this report, by its signer; old reports have neither."""

import base64
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.engine.pins import REPOSITORY
from bench.report import folder_files as files
from bench.report import keys, sign
from bench.report import verify as verification
from bench.report.folder import sign_folder
from bench.report.keys import trusted_keys
from bench.report.trust import model_signature
from bench.report.trust.companions import NO_TEST_RESULT
from bench.report.trust.test_result import Subject
from bench.report.verify_show import ALLOW_LIST
from tests.report.factories import healthy_observations, healthy_records, make_started
from tests.report.folders import NOW, Signed, signed


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Signed:
    records = healthy_records([0.5] * 80)
    return signed(tmp_path_factory.mktemp("honest"), records, [make_started(), *healthy_observations(records)])


@pytest.fixture
def report(honest: Signed, tmp_path: Path) -> Signed:
    return honest.copy(tmp_path / "copy")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory, honest: Signed) -> Signed:
    """Another report by the same signer."""
    base = tmp_path_factory.mktemp("other")
    records = healthy_records([0.4] * 80)
    made = signed(base, records, [make_started(), *healthy_observations(records)])
    sign_folder(made.path, made.report, made.subjects, honest.signer, NOW)
    return replace(made, signer=honest.signer)


def refusals(report: Signed) -> dict[str, str]:
    found = report.verify()
    assert not found.verified
    return {finding.file: finding.reason for finding in found.findings}


def signed_payload(report: Signed, name: str, payload: bytes) -> None:
    """What the signer can do: any statement in any of the files, and everything after it signed again."""
    (report.path / name).write_bytes(report.signer.attest(payload))


def payload_of(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(base64.b64decode(json.loads(path.read_bytes())["dsseEnvelope"]["payload"]))
    return found


def attest_again(report: Signed) -> None:
    """The report's own attestation and the model signature, over whatever lies there now."""
    names = [path.name for path in report.path.iterdir() if path.name not in files.UNSIGNED]
    digests = {name: files.file_sha256(report.path / name) for name in names}
    summary = sign.predicate(report.report, NOW.isoformat())
    (report.path / files.ATTESTATION).write_bytes(report.signer.attest(sign.statement(digests, summary)))
    key = (report.path / files.SIGNER).read_bytes()
    last = {name: files.file_sha256(report.path / name) for name in (files.ATTESTATION, files.SIGNER)}
    whole = model_signature.statement("x", digests | last)
    (report.path / files.MODEL_SIGNATURE).write_bytes(report.signer.attest(whole, hint=model_signature.hint(key)))


def test_the_honest_report_passes(honest: Signed, report: Signed) -> None:
    assert verification.COMPANIONS in honest.verify().passed
    attest_again(report)
    assert report.verify().verified


@pytest.mark.parametrize("name", [files.TEST_RESULT, files.MODEL_SIGNATURE])
def test_one_of_another_report_is_refused(report: Signed, other: Signed, name: str) -> None:
    shutil.copy(other.path / name, report.path)
    (reason,) = refusals(report).values()
    assert reason in {
        "was changed after it was signed: its SHA-256 is another one",
        "is not about the files of this folder",
    }


def test_a_test_result_of_another_report_is_refused_even_if_its_signer_puts_it_there(
    report: Signed, other: Signed
) -> None:
    shutil.copy(other.path / files.TEST_RESULT, report.path)
    attest_again(report)
    assert refusals(report) == {files.TEST_RESULT: "its tests say something else than report.json"}


def test_both_attestations_of_another_report_are_refused(report: Signed, other: Signed) -> None:
    for name in files.SIGNATURES:
        shutil.copy(other.path / name, report.path)
    assert files.REPORT in refusals(report)


def better(statement: dict[str, Any]) -> None:
    predicate = statement["predicate"]
    predicate["passedTests"] += predicate.pop("failedTests")
    predicate["failedTests"] = []
    predicate["result"] = "PASSED"


def another_image(statement: dict[str, Any]) -> None:
    statement["subject"].append({"name": "image b200", "digest": {"sha256": "9" * 64}})


def another_predicate(statement: dict[str, Any]) -> None:
    statement["predicateType"] = "https://in-toto.io/attestation/test-result/v9"


@pytest.mark.parametrize("change", [better, another_image, another_predicate])
def test_a_test_result_that_says_more_than_the_report_is_refused(
    report: Signed, change: Callable[[dict[str, Any]], None]
) -> None:
    said = payload_of(report.path / files.TEST_RESULT)
    change(said)
    signed_payload(report, files.TEST_RESULT, files.canonical_json(said))
    attest_again(report)
    assert refusals(report) == {files.TEST_RESULT: "its tests say something else than report.json"}


def test_subjects_that_the_evidence_does_not_name_are_refused(report: Signed) -> None:
    replace(report, subjects=(Subject("image b200", "9" * 64),)).sign_again()
    assert refusals(report) == {files.TEST_RESULT: "its tests say something else than report.json"}


@pytest.mark.parametrize("name", [files.TEST_RESULT, files.MODEL_SIGNATURE])
def test_one_by_another_signer_is_refused_though_they_are_trusted_too(
    report: Signed, tmp_path: Path, name: str
) -> None:
    second = keys.own_signer(tmp_path / "second")
    payload = files.canonical_json(payload_of(report.path / name))
    hint = model_signature.hint(keys.public_pem(second.public)) if name == files.MODEL_SIGNATURE else ""
    if name == files.TEST_RESULT:
        (report.path / name).write_bytes(second.attest(payload))
        attest_again(report)
    else:
        (report.path / name).write_bytes(second.attest(payload, hint=hint))
    trusted = report.trusted | replace(report, signer=second).trusted
    (finding,) = verification.verify(report.path, trusted).findings
    assert finding.reason.startswith(("holds key ", "it names two different keys"))


def test_neither_can_be_taken_away(report: Signed) -> None:
    (report.path / files.MODEL_SIGNATURE).unlink()
    assert refusals(report) == {files.MODEL_SIGNATURE: "is missing"}
    (report.path / files.TEST_RESULT).unlink()
    assert refusals(report) == {files.TEST_RESULT: "is missing, but was signed"}


@pytest.mark.parametrize("payload", [b"", b"[]", b"{}", b'{"subject": 1}', b'{"subject": [{"name": [1]}]}', b"\xff"])
def test_a_model_signature_of_nonsense_is_refused(report: Signed, payload: bytes) -> None:
    hint = model_signature.hint((report.path / files.SIGNER).read_bytes())
    (report.path / files.MODEL_SIGNATURE).write_bytes(report.signer.attest(payload, hint=hint))
    assert list(refusals(report)) == [files.MODEL_SIGNATURE]


def test_one_changed_byte_anywhere_in_the_model_signature(report: Signed) -> None:
    path = report.path / files.MODEL_SIGNATURE
    raw = path.read_bytes()
    for at in range(0, len(raw), 101):
        path.write_bytes(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :])
        assert set(refusals(report)) <= {files.MODEL_SIGNATURE, files.SIGNER}, f"byte {at}"
    path.write_bytes(raw)
    assert report.verify().verified


def test_the_folder_may_be_called_otherwise(report: Signed) -> None:
    moved = report.path.rename(report.path.with_name("another name"))
    assert verification.verify(moved, report.trusted).verified


def test_what_another_version_calls_its_tests_is_not_compared_but_whose_they_are_is(
    report: Signed, other: Signed, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = payload_of(report.path / files.TEST_RESULT)
    said["predicate"]["passedTests"].append("a rule that is not known here")
    signed_payload(report, files.TEST_RESULT, files.canonical_json(said))
    attest_again(report)
    monkeypatch.setattr(verification, "version", lambda _name: "9.9.9")
    found = report.verify()
    assert found.verified
    assert found.notes[0].startswith(f"{files.TEST_RESULT} was not compared with report.json. ")
    shutil.copy(other.path / files.TEST_RESULT, report.path)
    attest_again(report)
    assert refusals(report) == {files.TEST_RESULT: "is about another report"}


EVIDENCE = REPOSITORY / "evidence" / "h200" / "h200-fp8-dummy-20261130"


def test_a_report_of_an_older_version_is_verified_and_that_it_has_neither_is_said(tmp_path: Path) -> None:
    found = verification.verify(EVIDENCE, trusted_keys(allow_list=ALLOW_LIST, own_folder=tmp_path))
    assert found.findings == ()
    assert NO_TEST_RESULT in found.notes
    assert verification.COMPANIONS not in found.passed
    assert found.key is not None
    assert found.key.origin == "keys/streamproof-2026-11.pem"


def test_an_older_report_with_something_put_beside_it_is_refused(other: Signed, tmp_path: Path) -> None:
    trusted = trusted_keys(allow_list=ALLOW_LIST, own_folder=tmp_path)
    for name, reason in (
        (files.TEST_RESULT, "is not among the signed files"),
        (files.MODEL_SIGNATURE, "is missing"),
    ):
        copy = Path(shutil.copytree(EVIDENCE, tmp_path / name))
        shutil.copy(other.path / name, copy)
        assert reason in {finding.reason for finding in verification.verify(copy, trusted).findings}
