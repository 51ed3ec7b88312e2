"""The labels of our images: OCI's annotations, and what streamproof wants to know about an image that it finds.

https://github.com/opencontainers/image-spec/blob/main/annotations.md
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bench.images.definition import ImageDefinition
    from bench.images.revision import Revision

_OCI: Final = "org.opencontainers.image"
_OURS: Final = "io.streamproof"

DEFINITION: Final = f"{_OURS}.definition"
"""SHA-256 of what the image was built from (`bench.images.definition`)."""
TARGET: Final = f"{_OURS}.target"
STAGE: Final = f"{_OURS}.stage"
DIRTY: Final = f"{_OURS}.dirty"
"""Deciding files that were not committed; absent where there were none."""
BASE_DIGEST: Final = f"{_OCI}.base.digest"
BASE_NAME: Final = f"{_OCI}.base.name"
REVISION: Final = f"{_OCI}.revision"

_SHOWN_FILES: Final = 20


def labels_of(definition: ImageDefinition, revision: Revision, *, version: str, source: str | None) -> dict[str, str]:
    """What an image is labelled with. Nothing in it depends on when or where it is built.

    Args:
        definition: what it is built from.
        revision: of those files.
        version: of streamproof.
        source: address of the repository; None where it has none.
    """
    labels = {
        f"{_OCI}.title": f"streamproof {definition.target}",
        f"{_OCI}.description": definition.title,
        f"{_OCI}.version": version,
        f"{_OCI}.created": revision.created,
        f"{_OCI}.licenses": "Apache-2.0",
        REVISION: revision.label,
        BASE_NAME: definition.base.name,
        BASE_DIGEST: definition.base.digest,
        DEFINITION: definition.sha256,
        TARGET: definition.target,
        STAGE: definition.stage,
    }
    if source is not None:
        labels[f"{_OCI}.source"] = source
    if revision.changed:
        shown = revision.changed[:_SHOWN_FILES]
        more = len(revision.changed) - len(shown)
        labels[DIRTY] = " ".join(shown) + (f" and {more} more" if more else "")
    return labels
