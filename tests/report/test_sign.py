import base64
import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.report import folder_files as files
from bench.report import keys, sign, verify_words
from tests.report.factories import healthy_observations, healthy_records, make_started
from tests.report.folders import Signed, signed


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Signed:
    records = healthy_records([0.5] * 80)
    return signed(tmp_path_factory.mktemp("sign"), records, [make_started(), *healthy_observations(records)])


def test_pae_is_that_of_the_dsse_specification() -> None:
    # The example in https://github.com/secure-systems-lab/dsse/blob/master/protocol.md
    expected = b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    assert sign.pae("http://example.com/HelloWorld", b"hello world") == expected


@given(st.text(max_size=20), st.binary(max_size=40), st.text(max_size=20), st.binary(max_size=40))
def test_pae_tells_every_pair_apart(kind: str, payload: bytes, other_kind: str, other_payload: bytes) -> None:
    same = (kind, payload) == (other_kind, other_payload)
    assert (sign.pae(kind, payload) == sign.pae(other_kind, other_payload)) is same


def test_the_statement_names_every_file_but_the_signature_and_the_key(report: Signed) -> None:
    bundle = json.loads((report.path / files.ATTESTATION).read_bytes())
    statement = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == sign.PREDICATE_TYPE
    found = {subject["name"]: subject["digest"]["sha256"] for subject in statement["subject"]}
    assert found == {
        path.name: files.sha256(path.read_bytes())
        for path in report.path.iterdir()
        if path.name not in {files.ATTESTATION, files.SIGNER, files.MODEL_SIGNATURE}
    }
    assert set(found) == {*files.EVIDENCE, *files.RENDERED, files.TEST_RESULT, "engine-0.log"}


def test_the_predicate_says_what_the_report_says(report: Signed) -> None:
    bundle = json.loads((report.path / files.ATTESTATION).read_bytes())
    predicate = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))["predicate"]
    stored = json.loads((report.path / files.REPORT).read_bytes())
    assert predicate["target"] == stored["target"]
    assert predicate["fingerprint"] == stored["fingerprint"]
    assert predicate["claims"] == {claim["id"]: claim["verdict"] for claim in stored["claims"]}
    assert predicate["producer"] == stored["producer"]
    assert (predicate["startedAt"], predicate["signedAt"]) == ("2026-11-30T11:00:00Z", "2026-11-30T12:00:00+00:00")
    assert (predicate["partial"], predicate["valid"]) == (stored["partial"], stored["valid"])


def test_the_bundle_has_the_shape_of_sigstore_v03(report: Signed) -> None:
    bundle = json.loads((report.path / files.ATTESTATION).read_bytes())
    assert bundle["mediaType"] == "application/vnd.dev.sigstore.bundle.v0.3+json"
    assert bundle["verificationMaterial"] == {"publicKey": {"hint": report.signer.key_id}}
    assert bundle["dsseEnvelope"]["payloadType"] == "application/vnd.in-toto+json"
    assert [set(signature) for signature in bundle["dsseEnvelope"]["signatures"]] == [{"sig", "keyid"}]


def test_openssl_alone_accepts_the_signature_and_refuses_another_payload(report: Signed, tmp_path: Path) -> None:
    envelope = json.loads((report.path / files.ATTESTATION).read_bytes())["dsseEnvelope"]
    payload = base64.b64decode(envelope["payload"])
    (tmp_path / "sig").write_bytes(base64.b64decode(envelope["signatures"][0]["sig"]))

    def openssl(signed: bytes) -> int:
        (tmp_path / "signed").write_bytes(signed)
        command = ["openssl", "dgst", "-sha256", "-verify", str(report.path / files.SIGNER)]
        command += ["-signature", str(tmp_path / "sig"), str(tmp_path / "signed")]
        return subprocess.run(command, capture_output=True, check=False).returncode

    header = f"DSSEv1 {len(envelope['payloadType'])} {envelope['payloadType']} {len(payload)} ".encode()
    assert openssl(header + payload) == 0
    assert openssl(header + payload.replace(b"test-h200", b"test-b200")) != 0


def test_the_commands_on_the_page_work_as_printed(report: Signed, tmp_path: Path) -> None:
    script = verify_words.BY_HAND.replace("/tmp/", f"{tmp_path}/")  # noqa: S108  the path stands in the text
    if subprocess.run(["sh", "-c", "command -v jq"], capture_output=True, check=False).returncode:
        pytest.skip("jq is not installed")
    done = subprocess.run(["sh", "-e", "-c", script], cwd=report.path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Verified OK" in done.stdout
    assert "report.json: OK" in done.stdout


def test_two_signatures_by_one_key_differ_and_both_hold(tmp_path: Path) -> None:
    signer = keys.own_signer(tmp_path)
    payload = sign.statement({"a": "0" * 64}, {})
    assert sign.bundle(payload, signer) != sign.bundle(payload, signer)
