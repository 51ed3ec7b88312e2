"""With what a report can be signed. Apart from what does it, so that a command line is read without loading that."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

VARIABLE: Final = "STREAMPROOF_SIGN"
"""Environment variable with the same values as `--sign`."""


class Means(StrEnum):
    """What signs. A token alone never makes it keyless: that publishes an identity, so somebody must ask for it."""

    KEY = "key"
    KEYLESS = "keyless"
