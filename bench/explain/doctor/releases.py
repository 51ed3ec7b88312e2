"""vLLM releases as the knowledge files name them: from one on, before another."""

from __future__ import annotations

import re
from typing import Final, TypeAlias

Release: TypeAlias = tuple[int, int, int]

_RELEASE: Final = re.compile(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?")


def parse_release(text: str) -> Release | None:
    """The release that a version belongs to; None where the text is no version.

    A candidate or development build counts as the release that it leads to: "0.19.2rc1.dev8+g1234" is (0, 19, 2).
    """
    found = _RELEASE.match(text.strip())
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


def in_range(release: Release | None, since: str | None, before: str | None) -> bool:
    """Whether a release lies in [`since`, `before`). An unknown one does: what holds for some may hold for it."""
    if release is None:
        return True
    low, high = parse_release(since or "0.0"), parse_release(before or "9999.0")
    return low is not None and high is not None and low <= release < high


def range_words(since: str | None, before: str | None) -> str:
    """The range in words; empty for all releases."""
    parts = [f"{since} and newer"] if since else []
    parts += [f"before {before}"] if before else []
    return "vLLM " + ", ".join(parts) if parts else ""
