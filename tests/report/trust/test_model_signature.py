"""That OpenSSF's own command accepts these signatures is shown in tests/strangers."""

import base64
import hashlib
import json

import pytest
from model_signing._signing.signing import dsse_payload_to_manifest

from bench.report import folder_files as files
from bench.report.keys import public_pem
from bench.report.trust import model_signature
from tests.report.factories import healthy_observations, healthy_records, make_started
from tests.report.folders import Signed, signed


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Signed:
    records = healthy_records([0.5] * 80)
    return signed(tmp_path_factory.mktemp("model"), records, [make_started(), *healthy_observations(records)])


def test_it_names_every_file_but_itself(report: Signed) -> None:
    bundle = json.loads((report.path / files.MODEL_SIGNATURE).read_bytes())
    predicate = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))["predicate"]
    assert {each["name"]: each["digest"] for each in predicate["resources"]} == {
        path.name: files.file_sha256(path) for path in report.path.iterdir() if path.name != files.MODEL_SIGNATURE
    }
    assert predicate["serialization"]["ignore_paths"] == [files.MODEL_SIGNATURE]


def test_its_hint_is_what_sha256sum_says_of_the_key_file(report: Signed) -> None:
    bundle = json.loads((report.path / files.MODEL_SIGNATURE).read_bytes())
    hint = bundle["verificationMaterial"]["publicKey"]["hint"]
    assert hint == hashlib.sha256((report.path / files.SIGNER).read_bytes()).hexdigest()
    assert hint == model_signature.hint(public_pem(report.signer.public))


def test_its_digest_over_all_files_is_the_one_that_the_library_computes() -> None:
    digests = {"b": "1" * 64, "a.b": "2" * 64, "a": "3" * 64}
    found = json.loads(model_signature.statement("name", digests))
    manifest = dsse_payload_to_manifest(found)  # raises where the digest over the digests differs
    assert {each.identifier: each.digest.digest_hex for each in manifest.resource_descriptors()} == digests
    assert [each.identifier for each in manifest.resource_descriptors()] == sorted(digests)
    assert found["subject"][0]["name"] == "name"
