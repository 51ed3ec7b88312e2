"""Checks the two signatures that go with a report's attestation: the test result, and the folder's model signature."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.report import folder_files as files
from bench.report.trust import model_signature, test_result
from bench.report.verify_bundle import open_bundle
from bench.report.verify_files import Finding, RefusedError
from bench.report.verify_json import HostileJsonError, strict_loads

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.report.evidence import Evidence
    from bench.report.keys import TrustedKey
    from bench.report.model import Report
    from bench.report.verify_bundle import Attested
    from bench.report.verify_files import HostileFolder

NO_TEST_RESULT: Final = (
    f"It has no {files.TEST_RESULT} and no {files.MODEL_SIGNATURE}: streamproof before 0.3 made none. The signature "
    "that it has covers every file."
)


def check_companions(  # noqa: PLR0913  what a report consists of
    folder: HostileFolder,
    names: tuple[str, ...],
    attested: Attested,
    *,
    report: Report,
    evidence: Evidence,
    trusted: Mapping[str, TrustedKey],
    other_version: str,
) -> tuple[str, ...]:
    """Checks that both were made by the report's signer, and say what the report says.

    Args:
        folder: whose files are those that were attested.
        names: of its files.
        attested: what the attestation says.
        report: computed again.
        evidence: what it was computed from.
        trusted: as for the attestation.
        other_version: that another version made the report, in words; empty where this one did.

    Returns:
        Notes.

    Raises:
        RefusedError: with the reason.
    """
    if files.TEST_RESULT not in attested.digests and files.MODEL_SIGNATURE not in names:
        return (NO_TEST_RESULT,)
    key, raw_attestation = folder.read(files.SIGNER), folder.read(files.ATTESTATION)

    said = open_bundle(files.TEST_RESULT, folder.read(files.TEST_RESULT), key, trusted)
    expected = test_result.statement(report, test_result.subjects_of(evidence), attested.digests)
    notes = _check_test_result(said.payload, expected, attested, other_version)

    hint = model_signature.hint(key)
    signed = open_bundle(files.MODEL_SIGNATURE, folder.read(files.MODEL_SIGNATURE), key, trusted, hint=hint)
    last = {files.SIGNER: files.sha256(key), files.ATTESTATION: files.sha256(raw_attestation)}
    if signed.payload != model_signature.statement(_name_in(signed.payload), attested.digests | last):
        raise RefusedError(Finding(files.MODEL_SIGNATURE, "is not about the files of this folder"))
    return notes


def _check_test_result(payload: bytes, expected: bytes, attested: Attested, other_version: str) -> tuple[str, ...]:
    if payload == expected:
        return ()
    if not other_version:
        raise RefusedError(Finding(files.TEST_RESULT, "its tests say something else than report.json"))
    named = _object(_object(_object(_loads(files.TEST_RESULT, payload)).get("predicate")).get(test_result.REPORT_FIELD))
    if named.get("digest") != {"sha256": attested.digests[files.REPORT]}:
        raise RefusedError(Finding(files.TEST_RESULT, "is about another report"))
    return (f"{files.TEST_RESULT} was not compared with report.json. {other_version}",)


def _name_in(payload: bytes) -> str:
    """The name that a model signature gives to the folder: the signer's choice, for people."""
    subjects = _object(_loads(files.MODEL_SIGNATURE, payload)).get("subject")
    first = subjects[0] if isinstance(subjects, list) and subjects else None
    return str(_object(first).get("name"))


def _loads(file: str, payload: bytes) -> object:
    try:
        value: object = strict_loads(payload)
    except HostileJsonError as error:
        raise RefusedError(Finding(file, f"cannot be read: {error}")) from error
    return value


def _object(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}
