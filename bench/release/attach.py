"""Puts the files of a release, and our section of its notes, where they belong on GitHub.

Done twice, it changes nothing: what is there is looked at first, and what is the same is left alone.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from github import UnknownObjectException

from bench.errors import StreamproofError
from bench.release.body import with_section
from bench.release.notes import RELEASE_ASSETS, Links, render_notes
from bench.release.told import told
from bench.release.upload import ConflictError, Shelf

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from github.GitRelease import GitRelease
    from github.GitReleaseAsset import GitReleaseAsset
    from github.Repository import Repository

    from bench.release.client import Client
    from bench.release.notes import Asset, Contents
    from bench.release.progress import Progress
    from bench.release.upload import Action
    from bench.release.wishes import Wishes

ASSET_LIMIT: Final = 2 << 30
"""Bytes: GitHub takes no larger file (https://docs.github.com/en/repositories/releasing-projects-on-github)."""


@dataclass(frozen=True, slots=True)
class Step:
    """What has to be done for one file.

    Attributes:
        asset: the file.
        there: what has its name now.
        action: what that makes necessary.
    """

    asset: Asset
    there: GitReleaseAsset | None
    action: Action


@dataclass(frozen=True, slots=True)
class Attached:
    """What came of it, or would.

    Attributes:
        tag: of the release.
        page: its address; None where it would have to be made first.
        created: it was made, or would be.
        draft: nobody else sees it yet.
        actions: for every file, by name.
        links: where the files are.
        notes_changed: our section was written, or would be.
        dry_run: nothing was done.
    """

    tag: str
    page: str | None
    created: bool
    draft: bool
    actions: Mapping[str, Action]
    links: Links
    notes_changed: bool
    dry_run: bool


def attach(client: Client, tag: str, contents: Contents, wishes: Wishes, progress: Progress) -> Attached:
    """Attaches verified reports to a release.

    Files first, then the notes: they never name a file that is not there.

    Args:
        client: open.
        tag: of the release.
        contents: the files.
        wishes: what the user allows.
        progress: told what is being done.

    Raises:
        StreamproofError: it could not be done; what has been done stays, and the next call goes on from there.
        ConflictError: a file would have to be replaced.
    """
    _check_sizes(contents)
    progress.say(f"looking for release {tag} of {client.place.repository}")
    with told(client.place, "looking for the repository"):
        repository = client.repository()
    release = find_release(client, repository, tag)
    created = release is None
    if created and not wishes.create:
        raise StreamproofError(
            f"{client.place.repository} has no release {tag}",
            remedy="Make it on GitHub, check the spelling of the tag, or give --create: that makes a draft.",
        )
    links = Links.to(f"{repository.html_url}{RELEASE_ASSETS}{quote(tag, safe='')}")
    if release is None and wishes.dry_run:
        new: dict[str, Action] = {asset.name: "upload" for asset in contents.assets}
        return Attached(tag, None, True, True, new, links, notes_changed=True, dry_run=True)
    if release is None:
        with told(client.place, f"making a draft of release {tag}"):
            release = client.create_draft(tag, tag)
    shelf = Shelf(client, release)
    steps = _plan(shelf, contents, wishes, progress)
    section = render_notes(contents, links)
    changed = with_section(release.body or "", section) != (release.body or "")
    if not wishes.dry_run:
        _upload(shelf, steps, progress)
    if changed and not wishes.dry_run:
        progress.say("writing the notes")
        _write_notes(client, repository, release.id, section)
    actions = {step.asset.name: step.action for step in steps}
    return Attached(
        tag, release.html_url, created, release.draft, actions, links, notes_changed=changed, dry_run=wishes.dry_run
    )


def find_release(client: Client, repository: Repository, tag: str) -> GitRelease | None:
    """The release of a tag. By its tag GitHub finds what is published only: drafts are looked for in the list.

    Raises:
        StreamproofError: several drafts have the tag, or GitHub cannot be asked.
    """
    with told(client.place, f"looking for release {tag}"):
        try:
            return repository.get_release(tag)
        except UnknownObjectException:
            drafts = [release for release in repository.get_releases() if release.tag_name == tag]
    if len(drafts) > 1:
        pages = ", ".join(release.html_url for release in drafts)
        raise StreamproofError(f"{len(drafts)} drafts have the tag {tag}: {pages}", remedy="Delete all but one.")
    return drafts[0] if drafts else None


def _check_sizes(contents: Contents) -> None:
    large = [asset for asset in contents.assets if asset.size >= ASSET_LIMIT]
    if large:
        raise StreamproofError(
            f"{', '.join(asset.name for asset in large)}: GitHub takes no file of 2 GiB or more",
            remedy="The engine's logs are the only part of a report that grows so large: run with fewer log lines.",
        )


def _plan(shelf: Shelf, contents: Contents, wishes: Wishes, progress: Progress) -> list[Step]:
    found = shelf.found()
    steps = []
    for asset in contents.assets:
        there = found.get(asset.name)
        compare = (
            nullcontext(lambda _done: None) if there is None else progress.of(f"comparing {asset.name}", asset.size)
        )
        with compare as tell:
            steps.append(Step(asset, there, shelf.action(asset, there, replace=wishes.replace, tell=tell)))
    conflicts = [step.asset.name for step in steps if step.action == "conflict"]
    if conflicts and not wishes.dry_run:
        raise ConflictError(conflicts)
    return steps


def _upload(shelf: Shelf, steps: Sequence[Step], progress: Progress) -> None:
    for step in steps:
        if step.action == "leave alone":
            continue
        if step.there is not None:
            kind = "unfinished" if step.action == "complete" else "other"
            progress.say(f"removing the {kind} {step.asset.name}")
            shelf.remove(step.there)
        with progress.of(f"uploading {step.asset.name}", step.asset.size) as tell:
            shelf.put(step.asset, tell)


def _write_notes(client: Client, repository: Repository, release_id: int, section: str) -> None:
    """Changes our section of the body and nothing else."""
    with told(client.place, "writing the notes"):
        # As it is now: uploads take minutes, in which others may edit it.
        release = repository.get_release(release_id)
        body = with_section(release.body or "", section)
        # PyGithub's update_release sends the other values too: a draft that somebody publishes at this moment would
        # become one again.
        release.requester.requestJsonAndCheck("PATCH", release.url, input={"body": body})
