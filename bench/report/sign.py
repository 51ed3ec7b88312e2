"""Signs a report: an in-toto Statement over its files, in a DSSE envelope, in a Sigstore bundle.

A report bears three such bundles, by one signer: `test-result.sigstore.json` (`bench.report.trust.test_result`), this
one, which signs that file and every other but the key, and `model.sig` (`bench.report.trust.model_signature`).

Formats, so that tools which we did not write can check a report:

- in-toto Statement v1, https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md: the subjects are the
  folder's files by SHA-256, the predicate says in short what the report says.
- DSSE v1, https://github.com/secure-systems-lab/dsse/blob/master/protocol.md: `pae(...)` is signed, not the JSON.
- Sigstore bundle v0.3, https://docs.sigstore.dev/about/bundle/: `verificationMaterial.publicKey.hint` is the key's id.

The signature is ECDSA over P-256 with SHA-256, DER-encoded: `openssl dgst -sha256 -verify signer.pub.pem` accepts it.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from bench.report.folder_files import canonical_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.report.keys import Signer
    from bench.report.model import Report

BUNDLE_TYPE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "https://pypi.org/project/streamproof/#report-attestation-v1"
"""Names our predicate and its major version. It is a name, not an address to fetch."""

SIGNATURE_ALGORITHM: Final = ec.ECDSA(hashes.SHA256())


def pae(payload_type: str, payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding: the bytes that are signed.

    "DSSEv1" SP len(type) SP type SP len(payload) SP payload, lengths in ASCII decimal bytes.
    """
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def predicate(report: Report, signed_at: str) -> dict[str, Any]:
    """What the signature says in short; the report says it in full.

    Args:
        report: what is signed.
        signed_at: the signer's clock, UTC, ISO 8601. Nobody but the signer vouches for it.
    """
    return {
        "schemaVersion": report.schema_version,
        "title": report.title,
        "target": report.target,
        "fingerprint": report.fingerprint,
        "startedAt": report.started_at,
        "signedAt": signed_at,
        "partial": report.partial,
        "valid": report.valid,
        "exitCode": report.exit_code,
        "notReal": list(report.not_real),
        "claims": {claim.id: claim.verdict for claim in report.claims},
        "producer": report.producer.model_dump(mode="json"),
    }


def statement(digests: Mapping[str, str], summary: Mapping[str, Any]) -> bytes:
    """The in-toto Statement of a report.

    Args:
        digests: SHA-256 in hex by file name.
        summary: the predicate.
    """
    subjects = [{"name": name, "digest": {"sha256": digests[name]}} for name in sorted(digests)]
    return statement_of(PREDICATE_TYPE, subjects, summary)


def statement_of(predicate_type: str, subjects: Sequence[Mapping[str, Any]], said: Mapping[str, Any]) -> bytes:
    """An in-toto Statement.

    Args:
        predicate_type: what kind of thing is said.
        subjects: of whom, as ResourceDescriptors with a digest.
        said: the predicate.
    """
    return canonical_json(
        {
            "_type": STATEMENT_TYPE,
            "subject": [dict(subject) for subject in subjects],
            "predicateType": predicate_type,
            "predicate": dict(said),
        }
    )


def bundle(payload: bytes, signer: Signer, *, hint: str = "") -> bytes:
    """Signs a statement with a key.

    Args:
        payload: the statement.
        signer: the key.
        hint: how the bundle names the key; by default its id.

    Returns:
        The bundle, in the one form of JSON that we write.
    """
    signature = signer.private.sign(pae(PAYLOAD_TYPE, payload), SIGNATURE_ALGORITHM)
    return canonical_json(
        {
            "mediaType": BUNDLE_TYPE,
            "verificationMaterial": {"publicKey": {"hint": hint or signer.key_id}},
            "dsseEnvelope": {
                "payload": base64.b64encode(payload).decode(),
                "payloadType": PAYLOAD_TYPE,
                "signatures": [{"sig": base64.b64encode(signature).decode(), "keyid": signer.key_id}],
            },
        }
    )
