"""`just release-notes` and `just attach`: verify, make the files, and write or upload them."""

from __future__ import annotations

import json
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console

from bench.errors import Exit, StreamproofError
from bench.release import show
from bench.release.assets import make_assets
from bench.release.bring import brought_here
from bench.release.former import compare_with_former
from bench.release.notes import Links, render_notes
from bench.release.patience import Patience
from bench.release.place import place_of, token_of
from bench.release.progress import Progress
from bench.release.published import listed_keys, read_reports
from bench.report.folder_files import write_whole
from bench.report.keys import trusted_keys
from bench.report.verify_show import ALLOW_LIST

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.release.notes import Contents
    from bench.release.wishes import Wishes
    from bench.report.keys import TrustedIdentity

NOTES: Final = "notes.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which reports, and what is taken of them.

    Attributes:
        reports: folders, archives, addresses.
        formers: of a former release.
        keys: files with public keys that the user trusts.
        identities: of keyless signatures that the user trusts.
        instance: of Sigstore, see `bench.report.keys.Trust`.
        anyway: take what proves nothing too, and say so.
    """

    reports: Sequence[str]
    formers: Sequence[str] = ()
    keys: Sequence[Path] = ()
    identities: Sequence[TrustedIdentity] = ()
    instance: Path | None = None
    anyway: bool = False


def release_notes(wanted: Wanted, out: Path, base: str | None, *, as_json: bool = False) -> Exit:
    """Writes notes and files into a folder.

    Args:
        wanted: the reports.
        out: the folder.
        base: address of the folder that the files will be in; None where nobody knows yet.
        as_json: print what was written as JSON.

    Raises:
        UsageError: no report, or an address that is none.
        StreamproofError: a report is not verified, or the folder cannot be written.
    """
    links = Links() if base is None else Links.to(base)
    with _made(wanted, out, Progress(quiet=as_json)) as contents:
        write_whole(out / NOTES, render_notes(contents, links).encode())
    if as_json:
        _print_json(show.written_data(contents, out / NOTES))
    else:
        Console(highlight=False).print(show.written(contents, out / NOTES), soft_wrap=True)
    return Exit.OK


def attach_reports(  # noqa: PLR0913  the options of a command
    tag: str,
    wanted: Wanted,
    wishes: Wishes,
    *,
    repository: str | None,
    api: str | None,
    patience: Patience | None = None,
    as_json: bool = False,
) -> Exit:
    """Attaches reports to a release on GitHub.

    Args:
        tag: of the release.
        wanted: the reports.
        wishes: what the user allows.
        repository: "owner/name"; None to find out.
        api: address of the REST API; None to find out.
        patience: how long we wait for GitHub.
        as_json: print the outcome as JSON.

    Returns:
        0; 1 where a dry run found a file that would have to be replaced.

    Raises:
        UsageError: no report, or no such place.
        StreamproofError: a report is not verified, or GitHub refuses.
    """
    place, token = place_of(repository, api, Path.cwd()), token_of()
    try:
        from bench.release.attach import attach  # noqa: PLC0415  PyGithub: only a maintainer has it
        from bench.release.client import Client  # noqa: PLC0415  as above
    except ModuleNotFoundError as error:
        raise StreamproofError(
            f"{error.name} is not installed", remedy="It is in the extra `release`: uv sync --extra release"
        ) from error
    progress = Progress(quiet=as_json)
    with (
        tempfile.TemporaryDirectory(prefix="streamproof-release-") as folder,
        _made(wanted, Path(folder), progress) as contents,
        Client(place, token, patience or Patience()) as client,
    ):
        attached = attach(client, tag, contents, wishes, progress)
    if as_json:
        _print_json(show.attached_data(attached))
    else:
        Console(highlight=False).print(show.attached(attached), soft_wrap=True)
    return Exit.FAILURE if "conflict" in attached.actions.values() else Exit.OK


@contextmanager
def _made(wanted: Wanted, out: Path, progress: Progress) -> Iterator[Contents]:
    trusted = trusted_keys(
        allow_list=ALLOW_LIST, extra=wanted.keys, identities=wanted.identities, instance=wanted.instance
    )
    with brought_here(wanted.reports, progress) as here, brought_here(wanted.formers, progress) as formers:
        listed = listed_keys(ALLOW_LIST)
        reports = read_reports(here, trusted, listed=listed, anyway=wanted.anyway, say=progress.say)
        since = compare_with_former(reports, formers, trusted, anyway=wanted.anyway, say=progress.say)
        yield make_assets(reports, since, out, say=progress.say)


def _print_json(data: object) -> None:
    sys.stdout.write(f"{json.dumps(data, indent=2)}\n")
