"""Who signed, as the verifier knows them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.report.trust.validity import Signed, Validity


@dataclass(frozen=True, slots=True)
class Identity:
    """Somebody whom an authority vouched for.

    Attributes:
        name: as the certificate has it: an address, or the URL of a workflow.
        issuer: URL of the authority.
    """

    name: str
    issuer: str


@dataclass(frozen=True, slots=True)
class Signatory:
    """A signer whom the verifier chose to trust.

    Attributes:
        key_id: of the key that made the signature; a keyless signature's key is made for it and then thrown away.
        origin: where the trust comes from, for people ("your own key", "keys/ci.pem").
        identity: None where it is the key itself that is trusted.
        signed: when, as far as others than the signer vouch for it; None where nobody does.
        validity: for which time they are trusted.
    """

    key_id: str
    origin: str
    validity: Validity = field(repr=False)
    identity: Identity | None = None
    signed: Signed | None = None
