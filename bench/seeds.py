"""One random generator per component, seeded by hash(seed, name), so that a new feature never shifts an old stream."""

from __future__ import annotations

import hashlib
import random


def derive(*parts: str | int) -> int:
    """A 64-bit seed from its parts: the first 8 bytes of SHA-256 over the parts, each with its length before it."""
    digest = hashlib.sha256()
    for part in parts:
        raw = str(part).encode()
        digest.update(len(raw).to_bytes(4, "big") + raw)
    return int.from_bytes(digest.digest()[:8], "big")


def generator(*parts: str | int) -> random.Random:
    """A `random.Random` of its own for the component named by `parts`."""
    return random.Random(derive(*parts))  # noqa: S311  reproducibility is the point; no secret comes from it
