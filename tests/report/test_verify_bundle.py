import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from bench.report import folder_files as files
from bench.report import keys, sign
from bench.report.keys import Signer, Trust, TrustedKey
from bench.report.trust.validity import Revocation, Signed, Validity
from bench.report.verify_bundle import UNKNOWN_KEY_REMEDY, check_attestation
from bench.report.verify_files import RefusedError

DIGESTS = {"report.json": "a" * 64, "report.md": "b" * 64}


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    return keys.own_signer(tmp_path_factory.mktemp("keys"))


def trusted(signer: Signer) -> dict[str, TrustedKey]:
    return {signer.key_id: TrustedKey(signer.key_id, signer.public, "keys/ci.pem")}


def refusal(raw: bytes, signer: Signer, *, pem: bytes | None = None) -> tuple[str, str]:
    with pytest.raises(RefusedError) as caught:
        check_attestation(raw, keys.public_pem(signer.public) if pem is None else pem, trusted(signer))
    (finding,) = caught.value.findings
    return finding.file, finding.reason


def honest(signer: Signer) -> bytes:
    return sign.bundle(sign.statement(DIGESTS, {"title": "t"}), signer)


def edited(raw: bytes, edit: Callable[[dict[str, Any]], object]) -> bytes:
    bundle = json.loads(raw)
    edit(bundle)
    return files.canonical_json(bundle)


def signed_statement(statement: object, signer: Signer) -> bytes:
    return sign.bundle(files.canonical_json(statement), signer)


def statement_with(**changes: Any) -> dict[str, Any]:
    statement: dict[str, Any] = json.loads(sign.statement(DIGESTS, {"title": "t"}))
    return statement | changes


def test_an_honest_attestation_gives_its_digests_and_its_key(signer: Signer) -> None:
    found = check_attestation(honest(signer), keys.public_pem(signer.public), trusted(signer))
    assert found.digests == DIGESTS
    assert found.predicate == {"title": "t"}
    assert found.key.origin == "keys/ci.pem"


def limited(signer: Signer, validity: Validity) -> dict[str, TrustedKey]:
    return {signer.key_id: TrustedKey(signer.key_id, signer.public, "keys/ci.pem", validity)}


def signed_at(signer: Signer, when: str | None) -> bytes:
    summary = {"title": "t"} if when is None else {"title": "t", "signedAt": when}
    return sign.bundle(sign.statement(DIGESTS, summary), signer)


YEAR = Validity(datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))


def test_a_key_is_trusted_for_its_time_by_the_time_that_the_signer_says(signer: Signer) -> None:
    pem = keys.public_pem(signer.public)
    found = check_attestation(signed_at(signer, "2026-06-01T12:00:00+00:00"), pem, limited(signer, YEAR))
    assert found.signed == Signed(
        datetime(2026, 6, 1, 12, tzinfo=UTC), datetime(2026, 6, 1, 12, tzinfo=UTC), attested=False
    )
    for when, reason in (
        ("2025-12-31T23:59:59+00:00", "is trusted from 2026-01-01 on (keys/ci.pem)"),
        ("2027-01-01T00:00:00+00:00", "it is trusted until 2026-12-31 (keys/ci.pem)"),
        ("2026-06-01T12:00:00", "it says no time of signing"),
        ("yesterday", "it says no time of signing"),
        (None, "it says no time of signing"),
    ):
        with pytest.raises(RefusedError) as caught:
            check_attestation(signed_at(signer, when), pem, limited(signer, YEAR))
        (finding,) = caught.value.findings
        assert reason in finding.reason
        assert "just keys list" in finding.remedy


def test_a_key_that_expired_since_leaves_a_note(signer: Signer) -> None:
    over = Validity(not_after=datetime(2026, 1, 1, tzinfo=UTC))
    pem = keys.public_pem(signer.public)
    found = check_attestation(signed_at(signer, "2025-06-01T12:00:00+00:00"), pem, limited(signer, over))
    (note,) = found.notes
    assert note.startswith("The signer's key expired after 2025-12-31; this was signed before.")
    assert "the signer's own word" in note


def test_a_compromised_key_is_refused_and_it_is_said_why(signer: Signer) -> None:
    revoked = Validity(revoked=Revocation(datetime(2026, 1, 1, tzinfo=UTC), "compromised", "a stolen laptop"))
    trust = Trust({}, limited(signer, revoked))
    with pytest.raises(RefusedError) as caught:
        check_attestation(signed_at(signer, "2025-06-01T12:00:00+00:00"), keys.public_pem(signer.public), trust)
    (finding,) = caught.value.findings
    assert finding.reason.startswith("the signer's key was revoked on 2026-01-01 (compromised, a stolen laptop)")
    assert finding.reason.endswith(f"(keys/ci.pem, {signer.key_id})")


def test_an_unknown_key_is_refused_with_its_id_and_what_to_do(signer: Signer, tmp_path: Path) -> None:
    stranger = keys.own_signer(tmp_path)
    with pytest.raises(RefusedError) as caught:
        check_attestation(honest(stranger), keys.public_pem(stranger.public), trusted(signer))
    (finding,) = caught.value.findings
    assert finding.reason == f"signed by a key that is not trusted here: {stranger.key_id}"
    assert finding.remedy == UNKNOWN_KEY_REMEDY
    assert "--key" in finding.remedy


def test_a_stranger_who_names_a_trusted_key_is_refused(signer: Signer, tmp_path: Path) -> None:
    stranger = keys.own_signer(tmp_path)
    impostor = Signer(stranger.private, signer.key_id)
    file, reason = refusal(honest(impostor), signer)
    assert file == files.ATTESTATION
    assert reason.startswith("the signature is not one of key")


def test_a_changed_payload_or_signature_is_refused(signer: Signer) -> None:
    raw = honest(signer)
    payload = base64.b64decode(json.loads(raw)["dsseEnvelope"]["payload"])
    forged = base64.b64encode(payload.replace(b'"t"', b'"u"')).decode()
    assert "signature is not one" in refusal(edited(raw, lambda b: b["dsseEnvelope"].update(payload=forged)), signer)[1]
    nothing = base64.b64encode(b"").decode()
    for signature in (nothing, base64.b64encode(b"0" * 70).decode()):
        bad = edited(raw, lambda b, sig=signature: b["dsseEnvelope"]["signatures"][0].update(sig=sig))  # type: ignore[misc]
        assert "signature is not one" in refusal(bad, signer)[1]


def test_a_signature_over_the_payload_alone_is_refused(signer: Signer) -> None:
    raw = honest(signer)
    payload = base64.b64decode(json.loads(raw)["dsseEnvelope"]["payload"])
    bare = base64.b64encode(signer.private.sign(payload, sign.SIGNATURE_ALGORITHM)).decode()
    assert (
        "signature is not one"
        in refusal(edited(raw, lambda b: b["dsseEnvelope"]["signatures"][0].update(sig=bare)), signer)[1]
    )


def test_the_other_half_of_a_malleable_signature_signs_the_same_statement(signer: Signer) -> None:
    """(r, n - s) verifies wherever (r, s) does: harmless, since the statement is what it is; stated here so that nobody
    takes the attestation's own digest for an identity."""
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    raw = honest(signer)
    r, s = decode_dss_signature(base64.b64decode(json.loads(raw)["dsseEnvelope"]["signatures"][0]["sig"]))
    twin = base64.b64encode(encode_dss_signature(r, order - s)).decode()
    found = check_attestation(
        edited(raw, lambda b: b["dsseEnvelope"]["signatures"][0].update(sig=twin)),
        keys.public_pem(signer.public),
        trusted(signer),
    )
    assert found.digests == DIGESTS


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda b: b.update(mediaType="application/vnd.dev.sigstore.bundle+json;version=0.1"), "mediaType"),
        (lambda b: b.update(more=1), "more"),
        (lambda b: b.pop("verificationMaterial"), "verificationMaterial"),
        (lambda b: b["verificationMaterial"].update(publicKey={"hint": "../../etc/passwd"}), "hint"),
        (lambda b: b["dsseEnvelope"].update(payloadType="text/plain"), "payloadType"),
        (lambda b: b["dsseEnvelope"].update(signatures=[]), "signatures"),
        (lambda b: b["dsseEnvelope"].update(signatures=b["dsseEnvelope"]["signatures"] * 2), "signatures"),
        (lambda b: b["dsseEnvelope"]["signatures"][0].update(keyid="0" * 64), "names two different keys"),
        (lambda b: b["dsseEnvelope"].update(payload="not base64!"), "not base64"),
        (lambda b: b["dsseEnvelope"].update(payload="QQ="), "not base64"),
        (lambda b: b["dsseEnvelope"].update(payload="QR=="), "a form that nobody writes"),
    ],
)
def test_a_bundle_of_another_shape_is_refused(
    signer: Signer, edit: Callable[[dict[str, Any]], object], reason: str
) -> None:
    file, found = refusal(edited(honest(signer), edit), signer)
    assert file == files.ATTESTATION
    assert reason in found


@pytest.mark.parametrize("raw", [b"", b"[]", b"{}", b"null", b'{"mediaType": 1, "mediaType": 2}', b"[" * 100_000])
def test_what_is_no_bundle_is_refused(signer: Signer, raw: bytes) -> None:
    assert refusal(raw, signer)[0] == files.ATTESTATION


def test_another_form_of_the_same_json_is_refused(signer: Signer) -> None:
    raw = honest(signer)
    for other in (raw + b"\n", raw.replace(b"  ", b" ", 1), json.dumps(json.loads(raw)).encode()):
        assert "was edited" in refusal(other, signer)[1]


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        (statement_with(_type="https://in-toto.io/Statement/v0.1"), "_type"),
        (statement_with(predicateType="https://slsa.dev/provenance/v1"), "something else than a report"),
        (statement_with(subject=[]), "subject"),
        (statement_with(subject=statement_with()["subject"][:1] * 2), "names a file twice"),
        (statement_with(subject=[{"name": "report.json", "digest": {"sha1": "a" * 40}}]), "digest"),
        (statement_with(subject=[{"name": "report.json", "digest": {"sha256": "A" * 64}}]), "sha256"),
        ([1], "is not our bundle: the whole"),
    ],
)
def test_a_signed_statement_of_another_shape_is_refused(signer: Signer, statement: object, reason: str) -> None:
    assert reason in refusal(signed_statement(statement, signer), signer)[1]


def test_the_key_in_the_folder_must_be_the_one_that_signed(signer: Signer, tmp_path: Path) -> None:
    own = keys.public_pem(signer.public)
    other = keys.own_signer(tmp_path)
    assert refusal(honest(signer), signer, pem=keys.public_pem(other.public)) == (
        files.SIGNER,
        f"holds key {other.key_id}, but the report was signed with {signer.key_id} (keys/ci.pem)",
    )
    for pem in (own + b"\n", b"# a comment\n" + own):
        assert "not in the form that streamproof writes" in refusal(honest(signer), signer, pem=pem)[1]
    p384 = keys.public_pem(ec.generate_private_key(ec.SECP384R1()).public_key())
    for pem in (b"", b"nonsense", p384):
        assert "holds no P-256 key" in refusal(honest(signer), signer, pem=pem)[1]
