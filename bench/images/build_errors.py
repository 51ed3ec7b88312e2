"""Why a build ended, in words, with what to do: from what the builder said."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.errors import StreamproofError
from bench.images.inside.refusal import MARK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.images.definition import ImageDefinition

_SHOWN_LINES: Final = 8
_OTHER_BASE: Final = "--base-image REFERENCE@sha256:... takes the base from another registry."
_REFUSAL: Final = re.compile(rf"^(?:#\d+ \d+\.\d+ )?{re.escape(MARK)}(.*)$", re.MULTILINE)
_DISK: Final = re.compile("no space left on device", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Cause:
    """A way in which a base cannot be had: what the builder says, what that means ({base} is which), what to do."""

    said: str
    message: str
    remedy: str


_BASE_CAUSES: Final = (
    _Cause(
        "no match for platform|exec format error",
        "the base {base} has nothing for linux/amd64",
        "Name the digest of an index that has, or of the image for linux/amd64 alone.",
    ),
    _Cause(
        "pull access denied|unauthorized|authorization failed|insufficient_scope|403 Forbidden",
        "the registry does not give {base} to this user, or has no such image",
        f"Log in (docker login), or see whether it is still there. {_OTHER_BASE}",
    ),
    _Cause(
        "dial tcp|i/o timeout|no such host|TLS handshake|connection re(?:fused|set)|failed to do request|: EOF",
        "the registry of {base} cannot be reached from the Docker Engine",
        _OTHER_BASE,
    ),
    _Cause(
        "not found|manifest unknown",
        "the registry has no image with the digest of {base}",
        f"It may have been deleted, or the pin is wrong: `just pin` asks again. {_OTHER_BASE}",
    ),
)
"""In this order: an address that cannot be resolved is "not found" too."""


def explained(said: Sequence[str], definition: ImageDefinition) -> StreamproofError:
    """The error of a failed build.

    Args:
        said: the builder's lines.
        definition: of what was built.
    """
    text = "\n".join(said)
    if refusal := _REFUSAL.search(text):
        message = f"the image {definition.target} would not be what docker/pins.toml says: {refusal[1]}"
        return StreamproofError(message, remedy=_remedy(refusal[1]))
    if _DISK.search(text):
        return StreamproofError(
            f"the disk filled up while {definition.target} was built",
            remedy=f"It takes {definition.build_gib:g} GiB where Docker keeps its data; docker system df shows what "
            "does, docker builder prune frees what builds left.",
        )
    if "syft-scanner" in text:
        return StreamproofError(
            "the program that lists what is in the image cannot be fetched from Docker's registry",
            remedy="--no-attest builds without a bill of materials.",
        )
    about_base = [line for line in said if "@sha256:" in line or "failed to solve" in line]
    for cause in _BASE_CAUSES:
        if any(re.search(cause.said, line) for line in about_base):
            message = cause.message.format(base=definition.base.reference)
            return StreamproofError(message, remedy=cause.remedy)
    shown = "".join(f"\n  {line}" for line in said[-_SHOWN_LINES:])
    return StreamproofError(
        f"the image {definition.target} could not be built{shown}", remedy="What the builder said names the cause."
    )


def _remedy(refusal: str) -> str:
    if "the wheels were chosen for" in refusal:
        return "Say which Python the base has: --base-python."
    if "hash" in refusal.lower():
        return "A kept wheel is damaged: remove ~/.cache/streamproof/wheels and build again."
    return "Build on the pinned base, or correct the pin."
