"""Signs a bundle the way reports are signed: an in-toto statement over its files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.bundle.host.manifest import PREDICATE_TYPE
from bench.report import sign
from bench.report.folder_files import canonical_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.bundle.host.manifest import Manifest
    from bench.report.keys import Signer


def attestation(digests: Mapping[str, str], manifest: Manifest, signer: Signer) -> bytes:
    """The bytes of `manifest.sigstore.json`.

    Args:
        digests: SHA-256 in hex by file name, of every other file of the bundle.
        manifest: what the statement says in short.
        signer: whose signature it is. No time is signed: a bundle is made from a commit, and that has one.
    """
    summary: dict[str, Any] = {
        "target": manifest.target,
        "version": manifest.version,
        "commit": manifest.commit,
        "machine": manifest.machine,
        "python": manifest.python,
    }
    statement = {
        "_type": sign.STATEMENT_TYPE,
        "subject": [{"name": name, "digest": {"sha256": digests[name]}} for name in sorted(digests)],
        "predicateType": PREDICATE_TYPE,
        "predicate": summary,
    }
    return sign.bundle(canonical_json(statement), signer)
