"""Checks a keyless signature: certificate, public log, timestamp and identity.

All of it offline, by sigstore's own library (the extra `release`), against a root of trust that comes with that
library or that the verifier names. What a certificate says is its authority's word: that somebody who could act as this
identity signed, within the minutes for which it is valid. Log and timestamp show that they did so then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from bench.errors import StreamproofError
from bench.report.trust import instance as instances
from bench.report.trust.signatory import Identity
from bench.report.trust.validity import Signed

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from sigstore.models import Bundle

    from bench.report.keys import TrustedIdentity

_ISSUER: Final = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.1")
"""Fulcio's extension with the issuer's URL, https://github.com/sigstore/fulcio/blob/main/docs/oid-info.md."""


class KeylessError(StreamproofError):
    """A keyless signature that proves nothing here."""


@dataclass(frozen=True, slots=True)
class Keyless:
    """A keyless signature that was verified.

    Attributes:
        payload: what was signed.
        public: the certificate's key.
        identity: whom it was made out to.
        trusted: why that identity is trusted here.
        signed: within which time.
    """

    payload: bytes
    public: ec.EllipticCurvePublicKey
    identity: Identity
    trusted: TrustedIdentity
    signed: Signed


def verify_keyless(raw: bytes, identities: Iterable[TrustedIdentity], instance: Path | None) -> Keyless:
    """Checks a bundle with a certificate. Of which type its payload is, and what it says, is not looked at.

    Args:
        raw: the bundle.
        identities: that are trusted.
        instance: file that describes the Sigstore instance; None for the public one.

    Raises:
        KeylessError: with the reason.
        StreamproofError: sigstore's library is not installed, or `instance` cannot be read.
    """
    config = instances.read(instance, offline=True)
    from sigstore.models import Bundle  # noqa: PLC0415  an extra: only who verifies such a signature needs it
    from sigstore.verify import Verifier, policy  # noqa: PLC0415  as above

    try:
        bundle = Bundle.from_json(raw)
        certificate, public = bundle.signing_certificate, p256(bundle)
        identity = _identity(certificate)
    except Exception as error:  # whatever hostile bytes do to the parsers
        raise KeylessError(f"is no keyless bundle of Sigstore: {_line(error)}") from error
    trusted = _trusted(identity, identities)
    try:
        verifier = Verifier(trusted_root=config.trusted_root)
        named = policy.Identity(identity=identity.name, issuer=identity.issuer)
        _, payload = verifier.verify_dsse(bundle, named)
    except Exception as error:  # as above
        raise KeylessError(
            f"the keyless signature does not hold: {_line(error)}",
            remedy="If a private Sigstore instance made it, name that with --instance. Roots of trust change: a newer "
            "release of the package sigstore knows newer ones.",
        ) from error
    signed = Signed(certificate.not_valid_before_utc, certificate.not_valid_after_utc, attested=True)
    return Keyless(payload, public, identity, trusted, signed)


def matches(pattern: str, identity: str) -> bool:
    """Whether an identity is the one that an allow list names; a `*` at the end of the name stands for any rest."""
    return identity.startswith(pattern[:-1]) if pattern.endswith("*") else identity == pattern


def p256(bundle: Bundle) -> ec.EllipticCurvePublicKey:
    """The key of a bundle's certificate.

    Raises:
        ValueError: it is of another kind than our signatures have.
    """
    public = bundle.signing_certificate.public_key()
    if not isinstance(public, ec.EllipticCurvePublicKey) or not isinstance(public.curve, ec.SECP256R1):
        raise ValueError("the certificate's key is not ECDSA P-256")  # noqa: TRY004  a value from outside
    return public


def _identity(certificate: x509.Certificate) -> Identity:
    """What the certificate says; nothing of it is true until the certificate is verified."""
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    found = [
        *names.get_values_for_type(x509.RFC822Name),
        *names.get_values_for_type(x509.UniformResourceIdentifier),
    ]
    if len(found) != 1:
        raise ValueError(f"the certificate names {len(found)} identities")
    issuer = certificate.extensions.get_extension_for_oid(_ISSUER).value
    if not isinstance(issuer, x509.UnrecognizedExtension):  # for the types: nobody else defines this number
        raise ValueError("the certificate names no issuer")  # noqa: TRY004  a value from outside
    return Identity(found[0], issuer.value.decode())


def _trusted(identity: Identity, identities: Iterable[TrustedIdentity]) -> TrustedIdentity:
    """The entry for an identity; of several, the strictest."""
    fitting = [
        trusted
        for trusted in identities
        if trusted.issuer == identity.issuer and matches(trusted.identity, identity.name)
    ]
    if fitting:
        return min(fitting, key=lambda trusted: trusted.validity.lenience)
    raise KeylessError(
        f"signed by an identity that is not trusted here: {identity.name}, says {identity.issuer}",
        remedy="If it is the one that you expect, and you trust whoever can act as it: --identity NAME --issuer URL, "
        "or keep it in keys/ of your checkout (just keys add --identity NAME --issuer URL).",
    )


def _line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:300]}" if text else type(error).__name__
