"""What may be done to a release. Apart from what does it, which needs PyGithub."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the user allows.

    Attributes:
        create: make a draft where there is no release of the tag.
        replace: replace files of another content.
        dry_run: look only.
    """

    create: bool = False
    replace: bool = False
    dry_run: bool = False
