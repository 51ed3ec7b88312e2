"""Why a build ends: one message, which the host finds in the build's output."""

from __future__ import annotations

from typing import Final

MARK: Final = "streamproof refuses: "
"""Before the message, so that the host finds it between the lines of the builder."""


class BuildRefusedError(Exception):
    """The image would not be what it is defined to be."""
