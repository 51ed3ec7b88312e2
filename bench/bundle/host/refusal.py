"""How the installer says no."""

from __future__ import annotations


class Refusal(Exception):  # noqa: N818  it is one, and says so to people
    """The bundle is not installed.

    Args:
        message: what is wrong and where.
        remedy: what to do about it.
    """

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


COPY_ALL = "Copy every file of the bundle: it is installed whole or not at all."
"""The remedy where a file of the bundle is not there."""

COPY_AGAIN = "Copy the whole bundle again from where it was made; if the file is the same there, make the bundle again."
"""The remedy where a file of the bundle is not what its maker signed."""
