"""What "verified" means, in words: printed by `just verify` and written into every page."""

from __future__ import annotations

from typing import Final

MEANS: Final = (
    "the report was signed by somebody whom you chose to trust, and no byte of it has changed since;",
    "every figure and every verdict follows from the raw records in the folder: they were computed again, here.",
)
MEANS_NOT: Final = (
    "that the records are true: a signer can invent them. Trust in the measurement is trust in the signer;",
    "that the hardware was what environment.json says: it is what the signer's machine said of itself;",
    "that it was signed when it says so: only a keyless signature has witnesses of its time;",
    "that you would measure the same: run the recipe yourself. The same fingerprint makes the two comparable.",
)

KEY_PROVES: Final = (
    "Whoever holds this key made the signature. Whose key it is, you settled when you chose to trust it."
)
IDENTITY_PROVES: Final = (
    "Somebody who could act as this identity made the signature; for a workflow, that is whoever could change it."
)

BY_HAND: Final = """\
jq -r .dsseEnvelope.payload attestation.sigstore.json | base64 -d > /tmp/statement.json
jq -r '.dsseEnvelope.signatures[0].sig' attestation.sigstore.json | base64 -d > /tmp/statement.sig
(printf 'DSSEv1 28 application/vnd.in-toto+json %d ' $(wc -c < /tmp/statement.json); \
cat /tmp/statement.json) > /tmp/statement.pae
openssl dgst -sha256 -verify signer.pub.pem -signature /tmp/statement.sig /tmp/statement.pae
jq -r '.subject[] | .digest.sha256 + "  " + .name' /tmp/statement.json | sha256sum -c"""
"""Shell commands that check signature and digests with tools which we did not write, from within the folder."""
