"""Is a checkpoint the one that was audited and signed?

The signature is a Sigstore bundle of OpenSSF model-signing 1.x: a DSSE envelope around an in-toto statement that names
every file with its SHA-256. It is checked here without that package, since the client does not have it; the same file
passes `model_signing verify key` (tests/quantize/test_quantize_tiny.py).
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cryptography.exceptions import InvalidSignature
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bench.errors import StreamproofError
from bench.report import sign
from bench.report.verify_json import HostileJsonError, strict_loads
from quantize.audit.model import FILE_NAME as AUDIT
from quantize.audit.model import read_audit
from quantize.hashes import Hashes
from quantize.provenance import SIGNATURE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bench.report.keys import TrustedKey

_LIMIT: Final = 64 << 20
"""Bytes of a signature file; 100 shards take 20 KB."""
_REMEDY: Final = "Make it anew with `just quantize`, or serve it all the same with --unaudited; the report will say so."


class _Shape(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, hide_input_in_errors=True)


class _Signature(_Shape):
    sig: str


class _Envelope(_Shape):
    payload: str
    payload_type: Literal["application/vnd.in-toto+json"] = Field(alias="payloadType")
    signatures: Annotated[list[_Signature], Field(min_length=1, max_length=1)]


class _Bundle(_Shape):
    envelope: _Envelope = Field(alias="dsseEnvelope")


class _Resource(_Shape):
    name: str
    algorithm: Literal["sha256"]
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _Predicate(_Shape):
    resources: list[_Resource]
    serialization: dict[str, Any]


class _Statement(_Shape):
    type_: Literal["https://in-toto.io/Statement/v1"] = Field(alias="_type")
    predicate_type: Literal["https://model_signing/signature/v1.0"] = Field(alias="predicateType")
    predicate: _Predicate


@dataclass(frozen=True, slots=True)
class Signed:
    """What a signature says.

    Attributes:
        key_id: of the key that made it.
        digests: SHA-256 of every file of the folder but the signature itself, by name.
    """

    key_id: str
    digests: dict[str, str]


def check_attested(folder: Path, trusted: Mapping[str, TrustedKey], *, hashes: Hashes) -> Signed:
    """Returns when the checkpoint is whole, audited and signed.

    Args:
        folder: of the checkpoint.
        trusted: keys by id.
        hashes: of files that were read before.

    Returns:
        Who signed it, and what.

    Raises:
        StreamproofError: it is not, and why.
    """
    if not (folder / AUDIT).is_file():
        raise _refused(folder, f"it has no {AUDIT}: nobody has audited it")
    audit = read_audit(folder / AUDIT)
    if not audit.passed:
        gates = ", ".join(gate.name.value for gate in audit.failed) or "a gate was not checked"
        raise _refused(folder, f"its audit failed ({gates})")
    signed = check_signature(folder, trusted)
    digests = signed.digests
    here = {path for path in folder.rglob("*") if path.is_file()} - {folder / SIGNATURE}
    names = {path.relative_to(folder).as_posix(): path for path in here}
    for name in sorted(names.keys() ^ digests.keys()):
        raise _refused(folder, f"{name} is {'missing' if name in digests else 'not among the files that were signed'}")
    found = hashes.of(names.values())
    for name, path in sorted(names.items()):
        if found[path] != digests[name]:
            raise _refused(folder, f"{name} is not the file that was audited and signed")
    return signed


def check_signature(folder: Path, trusted: Mapping[str, TrustedKey]) -> Signed:
    """Checks the signature alone.

    Returns:
        Who made it, and what it covers; whether the files are those is not looked at.

    Raises:
        StreamproofError: there is none, it is malformed, or no trusted key made it.
    """
    try:
        with (folder / SIGNATURE).open("rb") as file:
            raw = file.read(_LIMIT)
    except OSError as error:
        raise _refused(folder, f"it has no signature ({SIGNATURE})") from error
    try:
        envelope = _Bundle.model_validate(strict_loads(raw)).envelope
        payload = base64.b64decode(envelope.payload, validate=True)
        signature = base64.b64decode(envelope.signatures[0].sig, validate=True)
        key = _signer(payload, signature, trusted)
        statement = _Statement.model_validate(strict_loads(payload)) if key else None
    except (HostileJsonError, ValidationError, binascii.Error) as error:
        reason = str(error).splitlines()[0]
        raise _refused(folder, f"its signature cannot be read: {reason}") from error
    if key is None or statement is None:
        raise _refused(folder, "no key that is trusted here (your own, and those in keys/) made its signature")
    return Signed(key, {resource.name: resource.digest for resource in statement.predicate.resources})


def _signer(payload: bytes, signature: bytes, trusted: Mapping[str, TrustedKey]) -> str | None:
    message = sign.pae(sign.PAYLOAD_TYPE, payload)
    for key_id, key in trusted.items():
        try:
            key.public.verify(signature, message, sign.SIGNATURE_ALGORITHM)
        except InvalidSignature:
            continue
        return key_id
    return None


def _refused(folder: Path, reason: str) -> StreamproofError:
    return StreamproofError(f"The checkpoint {folder.name} is refused: {reason}.", remedy=_REMEDY)
