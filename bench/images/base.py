"""What an image of ours is built on: a reference and a digest, never a tag alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.errors import UsageError

if TYPE_CHECKING:
    from bench.engine.pins import ImagePin

_PINNED: Final = re.compile(r"(?P<name>[a-z0-9][A-Za-z0-9._/:-]*)@(?P<digest>sha256:[0-9a-f]{64})")
_PYTHON: Final = re.compile(r"3\.\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """An image by content.

    Attributes:
        name: registry, repository and perhaps a tag, for people.
        digest: "sha256:...": of a manifest, or of an index with one for linux/amd64. This alone decides what it is.
        python: major and minor version of its `python3` ("3.12"), which wheels are chosen for; None where nothing of
            ours is installed into it.
        glibc: minor version of its GNU C library 2, as above.
        gib: space that its unpacked layers take, in GiB; 0 where nobody knows.
    """

    name: str
    digest: str
    python: str | None = None
    glibc: int | None = None
    gib: float = 0.0

    @property
    def reference(self) -> str:
        """As `FROM` takes it: "python:3.12.14-slim-bookworm@sha256:..."."""
        return f"{self.name}@{self.digest}"


def pinned_base(pin: ImagePin) -> Base:
    """The base that docker/pins.toml names: its linux/amd64 manifest where that is known, else its index."""
    return Base(
        name=pin.reference,
        digest=pin.linux_amd64 or pin.index,
        python=pin.python,
        glibc=pin.glibc,
        gib=pin.unpacked_gib or 0.0,
    )


def parse_base(text: str, *, python: str | None, glibc: int | None) -> Base:
    """Another base, as the command line names it.

    Args:
        text: "REFERENCE@sha256:<64 hex digits>".
        python: of the image ("3.11").
        glibc: of the image, minor version.

    Raises:
        UsageError: it has no digest: a tag can be another image tomorrow. Or the version is none.
    """
    found = _PINNED.fullmatch(text)
    if found is None or found["name"].endswith(":latest"):
        raise UsageError(
            f"{text!r} does not say which image is meant: it must be REFERENCE@sha256:<64 hex digits>, and not latest.",
            remedy="docker image inspect --format '{{.RepoDigests}}' REFERENCE prints the digest of an image that was "
            "pulled or pushed.",
        )
    if python is not None and _PYTHON.fullmatch(python) is None:
        raise UsageError(f"{python!r} is no version of Python.", remedy='Name major and minor version: "3.12".')
    return Base(name=found["name"], digest=found["digest"], python=python, glibc=glibc)
