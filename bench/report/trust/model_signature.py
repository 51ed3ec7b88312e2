"""The report folder's OpenSSF model signature: `model.sig`, that `model_signing verify` checks.

Its statement names every file of the folder but itself, the attestations and the public key included: it is made last.
The format is that of model-signing 1.x, https://github.com/sigstore/model-transparency: a Sigstore bundle of a
statement with the predicate `https://model_signing/signature/v1.0`, whose only subject is a digest over the digests of
all files, in the order of their names. It is written here without that package, which the client does not have;
`tests/strangers` shows that its command accepts what is written here.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from bench.report import folder_files as files
from bench.report import sign

if TYPE_CHECKING:
    from collections.abc import Mapping

PREDICATE_TYPE: Final = "https://model_signing/signature/v1.0"


def hint(public_pem: bytes) -> str:
    """How such a bundle names the key: SHA-256 of its PEM file, and not of its DER form as elsewhere."""
    return files.sha256(public_pem)


def statement(name: str, digests: Mapping[str, str]) -> bytes:
    """The in-toto statement.

    Args:
        name: of what is signed, for people.
        digests: SHA-256 in hex of every file but the signature, by name.
    """
    ordered = dict(sorted(digests.items()))
    root = hashlib.sha256(b"".join(bytes.fromhex(digest) for digest in ordered.values())).hexdigest()
    return sign.statement_of(
        PREDICATE_TYPE,
        [{"name": name, "digest": {"sha256": root}}],
        {
            "serialization": {
                "method": "files",
                "hash_type": "sha256",
                "allow_symlinks": False,
                "ignore_paths": [files.MODEL_SIGNATURE],
            },
            "resources": [{"name": each, "algorithm": "sha256", "digest": digest} for each, digest in ordered.items()],
        },
    )
