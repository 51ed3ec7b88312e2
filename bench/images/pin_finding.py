"""What became of one pin: confirmed, changed, contradicted, or not checked."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """In the order of how much they matter to who reads them."""

    CONTRADICTED = "contradicted"
    """Whoever was asked says that there is no such thing, or that it is something else. The entry stays as it is."""
    CHANGED = "changed"
    """There is something newer, or something more was found."""
    NOT_CHECKED = "not checked"
    """Nobody could be asked. The entry stays as it is, its note on how it was found included."""
    CONFIRMED = "confirmed"
    """It is as it was pinned."""


@dataclass(frozen=True, slots=True)
class Change:
    """One value.

    Attributes:
        key: in the file; of a lock, the package.
        old: what it was; None where there was nothing.
        new: what it is; None where there is nothing any more.
    """

    key: str
    old: str | None
    new: str | None


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One pin and what became of it.

    Attributes:
        name: of the image or lock.
        what: what it is, for people: an image's reference, a lock's file.
        state: see `State`.
        changes: what is different.
        why: what was wrong, for `CONTRADICTED` and `NOT_CHECKED`; for `CHANGED` what the change means.
        remedy: what to do about it.
        recipes: targets that run on it, and other images that are built on it.
        seen: other facts that were found: labels, the platform.
        content: of a lock: the whole new file; None where it stays.
    """

    name: str
    what: str
    state: State
    changes: tuple[Change, ...] = ()
    why: str = ""
    remedy: str = ""
    recipes: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()
    content: str | None = None
