"""Checks that the bundle's files are those that its signer signed, before anything of them is used.

The attestation is a Sigstore bundle with a DSSE envelope around an in-toto statement, as `bench.report.sign` writes it
for reports; see there for the formats. Only its payload counts: nothing else of the file is used.
"""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any, Final

from .manifest import ATTESTATION, PREDICATE_TYPE, SIGNER
from .p256 import BadKeyError, der_of_pem, key_id, verifies
from .refusal import COPY_AGAIN, COPY_ALL, Refusal

_PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
_SMALL: Final = 1 << 20
"""Bytes. The attestation has a few thousand, the key fewer than 300."""
_PIECE: Final = 1 << 20


def signed_files(folder: Path, expected_signer: str | None) -> tuple[str, dict[str, str]]:
    """Who signed the bundle, and SHA-256 by name of what was signed.

    Args:
        folder: the bundle's.
        expected_signer: the key id that must have signed; None takes any.

    Raises:
        Refusal: no valid signature, or one of somebody else.
    """
    pem = _read(folder / SIGNER)
    try:
        der = der_of_pem(pem)
        signer = key_id(der)
        payload, signature, named = _envelope(_read(folder / ATTESTATION))
        if named != signer:
            raise Refusal(
                f"{SIGNER} holds key {signer}, but {ATTESTATION} was signed with {named}: one of them was exchanged",
                COPY_AGAIN,
            )
        right = verifies(der, signature, _pae(payload))
    except BadKeyError as error:
        raise Refusal(f"{SIGNER} holds no P-256 public key: {error}", COPY_AGAIN) from error
    if not right:
        raise Refusal(f"the signature in {ATTESTATION} is not one of key {signer}: it was edited", COPY_AGAIN)
    if expected_signer is not None and signer != expected_signer:
        raise Refusal(
            f"the bundle was signed by {signer}, not by {expected_signer}",
            "Ask the person who gave you the bundle which key is theirs, over another channel than the bundle itself.",
        )
    return signer, _digests(payload)


def check_file(folder: Path, name: str, sha256: str, size: int | None = None) -> None:
    """Compares one file of the bundle with what was signed.

    Raises:
        Refusal: it is missing, of another size, or of another content.
    """
    path = folder / name
    if not path.is_file():
        raise Refusal(f"{name} is missing from {folder}", COPY_ALL)
    found = path.stat().st_size
    if size is not None and found != size:
        raise Refusal(f"{name} has {found:,} bytes instead of {size:,}: it is damaged or cut short", COPY_AGAIN)
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    if digest.hexdigest() != sha256:
        raise Refusal(f"{name} is damaged or was edited: its SHA-256 is not the signed one", COPY_AGAIN)


def _envelope(raw: bytes) -> tuple[bytes, bytes, str]:
    """Payload, signature and the id of the key that it names."""
    try:
        envelope = json.loads(raw)["dsseEnvelope"]
        (signature,) = envelope["signatures"]
        payload = base64.b64decode(envelope["payload"], validate=True)
        return payload, base64.b64decode(signature["sig"], validate=True), str(signature["keyid"])
    except (ValueError, KeyError, TypeError) as error:
        raise Refusal(f"{ATTESTATION} cannot be read: it was edited ({error})", COPY_AGAIN) from error


def _pae(payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding: the bytes that are signed."""
    kind = _PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def _digests(payload: bytes) -> dict[str, str]:
    statement: Any = json.loads(payload)  # signed: it is as its maker wrote it
    if statement["predicateType"] != PREDICATE_TYPE:
        raise Refusal(
            f"{ATTESTATION} attests something else than a bundle of this version: {statement['predicateType']}",
            "Install it with the install.sh that came with it.",
        )
    return {subject["name"]: subject["digest"]["sha256"] for subject in statement["subject"]}


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_SMALL)
    except OSError as error:
        raise Refusal(f"{path.name} cannot be read: {error.strerror}", COPY_ALL) from error
