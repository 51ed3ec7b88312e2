"""Checks the attestation of a report: the shape of the bundle, the signature, the statement.

The file must be exactly as `bench.report.sign` writes it, byte for byte once it is read and written again: there is
then no room in it for anything that the signature does not cover. A keyless signature brings a certificate instead of
the name of a key; that is checked by sigstore's own library (`bench.report.trust.keyless_verify`).
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

from cryptography.exceptions import InvalidSignature
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bench.errors import StreamproofError
from bench.report import folder_files as files
from bench.report import keys, sign
from bench.report.trust.keyless_verify import KeylessError, verify_keyless
from bench.report.trust.signatory import Signatory
from bench.report.trust.validity import Signed
from bench.report.verify_files import Finding, RefusedError
from bench.report.verify_json import HostileJsonError, strict_loads

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.report.keys import TrustedKey

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Base64 = Annotated[str, Field(max_length=1 << 20)]

UNKNOWN_KEY_REMEDY: Final = (
    "Ask its owner for the key id over another channel than this report (a call, their web site). If it is the same, "
    "pass signer.pub.pem with --key, or keep it: just keys add signer.pub.pem --whose NAME. A report that brings a "
    "key proves nothing."
)

_LIMITED_REMEDY: Final = "`just keys list` shows for which time each signer is trusted here, and why no longer."


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


_ShapeT = TypeVar("_ShapeT", bound=_Shape)


class _PublicKey(_Shape):
    hint: Sha256


class _Material(_Shape):
    public_key: _PublicKey = Field(alias="publicKey")


class _Certificate(_Shape):
    raw_bytes: Base64 = Field(alias="rawBytes")


class _KeylessMaterial(_Shape):
    """Certificate, and what log and timestamp authority said; the library reads the latter two."""

    certificate: _Certificate
    log: Annotated[list[Any], Field(alias="tlogEntries")]
    timestamps: dict[str, Any] | None = Field(default=None, alias="timestampVerificationData")


class _Signature(_Shape):
    sig: Base64
    keyid: Sha256 | Literal[""] = ""


class _Envelope(_Shape):
    payload: Base64
    payload_type: Literal["application/vnd.in-toto+json"] = Field(alias="payloadType")
    signatures: Annotated[list[_Signature], Field(min_length=1, max_length=1)]


class _Bundle(_Shape):
    media_type: Literal["application/vnd.dev.sigstore.bundle.v0.3+json"] = Field(alias="mediaType")
    material: _Material | _KeylessMaterial = Field(alias="verificationMaterial")
    envelope: _Envelope = Field(alias="dsseEnvelope")


class _Digest(_Shape):
    sha256: Sha256


class _Subject(_Shape):
    name: Annotated[str, Field(max_length=120)]
    digest: _Digest


class _Statement(_Shape):
    type_: Literal["https://in-toto.io/Statement/v1"] = Field(alias="_type")
    subject: Annotated[list[_Subject], Field(min_length=1, max_length=1024)]
    predicate_type: str = Field(alias="predicateType")
    predicate: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Opened:
    """A bundle that a trusted signer made: who, and the statement in it."""

    signer: Signatory
    payload: bytes


@dataclass(frozen=True, slots=True)
class Attested:
    """What a trusted signer has signed.

    Attributes:
        key: the signer.
        digests: SHA-256 in hex by file name.
        predicate: the signed summary, see `bench.report.sign.predicate`.
        signed: when it was signed; None where nobody says.
        notes: what should be known of the signer.
    """

    key: Signatory
    digests: dict[str, str]
    predicate: dict[str, Any]
    signed: Signed | None
    notes: tuple[str, ...]


def check_attestation(raw: bytes, signer_pem: bytes, trusted: Mapping[str, TrustedKey]) -> Attested:
    """Checks everything about `attestation.sigstore.json` and `signer.pub.pem`.

    Args:
        raw: bytes of the attestation.
        signer_pem: bytes of the public key in the folder: there for other tools, never a reason to trust it.
        trusted: keys by id; a `bench.report.keys.Trust` brings identities too.

    Raises:
        RefusedError: with the reason.
    """
    opened = open_bundle(files.ATTESTATION, raw, signer_pem, trusted)
    statement = _parse(files.ATTESTATION, opened.payload, _Statement)
    if statement.predicate_type != sign.PREDICATE_TYPE:
        raise RefusedError(
            Finding(
                files.ATTESTATION,
                f"attests something else than a report of this version: {statement.predicate_type[:120]}",
                "Verify it with the version of streamproof that made it.",
            )
        )
    digests = {subject.name: subject.digest.sha256 for subject in statement.subject}
    if len(digests) != len(statement.subject):
        raise RefusedError(Finding(files.ATTESTATION, "it names a file twice"))
    signed = opened.signer.signed or _claimed(statement.predicate)
    judged = opened.signer.validity.judge(signed, datetime.now(UTC))
    if judged.refused:
        raise RefusedError(Finding(files.ATTESTATION, f"{judged.refused} ({opened.signer.origin})", _LIMITED_REMEDY))
    return Attested(opened.signer, digests, statement.predicate, signed, judged.notes)


def open_bundle(
    file: str, raw: bytes, signer_pem: bytes, trusted: Mapping[str, TrustedKey], *, hint: str = ""
) -> Opened:
    """Checks a bundle, but not what its statement says.

    Args:
        file: its name, for findings.
        raw: its bytes.
        signer_pem: bytes of the public key in the folder.
        trusted: see `check_attestation`.
        hint: how it must name a key; by default by its id.

    Raises:
        RefusedError: with the reason.
    """
    bundle = _parse(file, raw, _Bundle)
    payload, signature = _base64(file, bundle.envelope.payload), _base64(file, bundle.envelope.signatures[0].sig)
    if isinstance(bundle.material, _KeylessMaterial):
        return _open_keyless(file, raw, signer_pem, trusted)
    name = bundle.envelope.signatures[0].keyid
    if bundle.material.public_key.hint != (hint or name):
        raise RefusedError(Finding(file, "it names two different keys"))
    key = trusted.get(name)
    if key is None:
        raise RefusedError(_untrusted(file, name, trusted))
    if signer_pem != keys.public_pem(key.public):
        raise RefusedError(_other_signer(signer_pem, key))
    try:
        key.public.verify(signature, sign.pae(sign.PAYLOAD_TYPE, payload), sign.SIGNATURE_ALGORITHM)
    except InvalidSignature as error:
        reason = f"the signature is not one of key {key.key_id} ({key.origin}) over this statement"
        raise RefusedError(Finding(file, reason)) from error
    return Opened(Signatory(key.key_id, key.origin, key.validity), payload)


def _open_keyless(file: str, raw: bytes, signer_pem: bytes, trusted: Mapping[str, TrustedKey]) -> Opened:
    identities = trusted.identities if isinstance(trusted, keys.Trust) else ()
    instance = trusted.instance if isinstance(trusted, keys.Trust) else None
    try:
        keyless = verify_keyless(raw, identities, instance)
    except KeylessError as error:
        raise RefusedError(Finding(file, error.message, error.remedy)) from error
    if signer_pem != keys.public_pem(keyless.public):
        raise RefusedError(Finding(files.SIGNER, "is not the key of the certificate that the report was signed with"))
    entry, key_id = keyless.trusted, keys.key_id(keyless.public)
    signer = Signatory(key_id, entry.origin, entry.validity, keyless.identity, keyless.signed)
    return Opened(signer, keyless.payload)


def _claimed(predicate: Mapping[str, Any]) -> Signed | None:
    """When the signer says that it was signed."""
    try:
        when = datetime.fromisoformat(str(predicate.get("signedAt")))
    except ValueError:
        return None
    return None if when.tzinfo is None else Signed(when, when, attested=False)


def _untrusted(file: str, name: str, trusted: Mapping[str, TrustedKey]) -> Finding:
    known = trusted.compromised.get(name) if isinstance(trusted, keys.Trust) else None
    if known is not None:
        judged = known.validity.judge(None, datetime.now(UTC))
        return Finding(file, f"{judged.refused} ({known.origin}, {name})", _LIMITED_REMEDY)
    return Finding(file, f"signed by a key that is not trusted here: {name}", UNKNOWN_KEY_REMEDY)


def _other_signer(signer_pem: bytes, key: TrustedKey) -> Finding:
    try:
        found = keys.key_id(keys.parse_public(signer_pem, files.SIGNER))
    except StreamproofError:
        found = ""
    if found == key.key_id:
        return Finding(files.SIGNER, "is the signer's key, but not in the form that streamproof writes: it was edited")
    other = f"key {found}" if found else "no P-256 key"
    return Finding(files.SIGNER, f"holds {other}, but the report was signed with {key.key_id} ({key.origin})")


def _parse(file: str, raw: bytes, shape: type[_ShapeT]) -> _ShapeT:
    """Strict JSON, our canonical bytes, the right keys."""
    try:
        value = strict_loads(raw)
        parsed = shape.model_validate(value)
    except HostileJsonError as error:
        raise RefusedError(Finding(file, f"cannot be read: {error}")) from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(str(step) for step in first["loc"]) or "the whole"
        raise RefusedError(Finding(file, f"is not our bundle: {where[:120]}: {first['msg']}")) from error
    if files.canonical_json(value) != raw:
        raise RefusedError(Finding(file, "is not in the form that streamproof writes: it was edited"))
    return parsed


def _base64(file: str, text: str) -> bytes:
    try:
        raw = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise RefusedError(Finding(file, "holds a value that is not base64")) from error
    if base64.b64encode(raw).decode() != text:
        raise RefusedError(Finding(file, "holds base64 in a form that nobody writes: it was edited"))
    return raw
