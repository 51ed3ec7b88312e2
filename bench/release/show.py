"""What was written or attached, for people and for scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.console import Group
from rich.text import Text

from bench.report.render.words import bytes_

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import RenderableType

    from bench.release.attach import Attached
    from bench.release.notes import Contents

_DONE: Final = {
    "upload": ("uploaded", "would be uploaded", "green"),
    "leave alone": ("there already", "there already", "dim"),
    "replace": ("replaced", "would be replaced", "yellow"),
    "complete": ("uploaded again", "is unfinished, would be uploaded again", "yellow"),
    "conflict": ("", "another file has this name (--replace)", "bold red"),
}
"""Of every action: what was done, what would be, and its colour."""


def written(contents: Contents, notes: Path) -> RenderableType:
    """The files of `release-notes`."""
    lines: list[RenderableType] = [Text.assemble(("notes  ", "bold"), str(notes))]
    lines += [
        Text.assemble(("asset  ", "bold"), f"{asset.path}  ", (bytes_(asset.size), "dim")) for asset in contents.assets
    ]
    lines.append(Text("Put the notes into the release's text and upload the assets, or let `attach` do both.", "dim"))
    return Group(Text(), *lines)


def written_data(contents: Contents, notes: Path) -> dict[str, Any]:
    """The same for scripts."""
    return {
        "notes": str(notes),
        "assets": [
            {"path": str(asset.path), "sha256": asset.sha256, "size": asset.size, "media_type": asset.media_type}
            for asset in contents.assets
        ],
    }


def attached(outcome: Attached) -> RenderableType:
    """What `attach` did, or would do."""
    lines: list[RenderableType] = []
    for name, action in outcome.actions.items():
        done, would, style = _DONE[action]
        lines.append(Text.assemble((f"{would if outcome.dry_run else done}  ", style), name))
    notes = {
        (True, False): ("written", "green"),
        (True, True): ("would be written", "green"),
    }.get((outcome.notes_changed, outcome.dry_run), ("there already", "dim"))
    lines.append(Text.assemble((f"{notes[0]}  ", notes[1]), "our section of the notes"))
    made = "a draft that would be made" if outcome.dry_run else "a new draft"
    lines.append(Text.assemble(("release  ", "bold"), outcome.page or outcome.tag))
    if outcome.draft:
        kind = made if outcome.created else "a draft"
        lines.append(Text(f"It is {kind}: nobody else sees it until you publish it.", "yellow"))
    return Group(Text(), *lines)


def attached_data(outcome: Attached) -> dict[str, Any]:
    """The same for scripts."""
    return {
        "tag": outcome.tag,
        "page": outcome.page,
        "created": outcome.created,
        "draft": outcome.draft,
        "dry_run": outcome.dry_run,
        "notes_changed": outcome.notes_changed,
        "assets": [
            {"name": name, "action": action, "url": outcome.links.of(name)} for name, action in outcome.actions.items()
        ],
    }
