"""`just release-notes` and `just attach`: their options and their help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Reports = Annotated[
    list[str] | None,
    typer.Argument(metavar="REPORT", help="Reports: folders, archives or https addresses, as for `verify`."),
]
Former = Annotated[
    list[str] | None,
    typer.Option(
        metavar="REPORT",
        help="Report of a former release to compare with: folder, archive or address. One for each target.",
    ),
]
Keys = Annotated[list[Path] | None, typer.Option(help="Public key (PEM) of a signer you trust, as for `verify`.")]
Identity = Annotated[
    str | None, typer.Option(metavar="NAME", help="With --issuer: whose keyless signature you trust, as for `verify`.")
]
Issuer = Annotated[str | None, typer.Option(metavar="URL", help="Who vouches for --identity.")]
Instance = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Sigstore instance of keyless signatures, as for `verify`.")
]
Anyway = Annotated[
    bool,
    typer.Option(
        "--anyway",
        help="Publish partial and invalid reports too, and compare what answers different questions. The notes then "
        "say so in bold.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="The outcome as JSON, for scripts.")]


def release_notes(
    reports: Reports = None,
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write to.")] = Path("dist/release-notes"),
    base_url_of_assets: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Address of the folder that the assets will be in, e.g. "
            "https://github.com/OWNER/NAME/releases/download/TAG. Without it the notes link to the files beside them.",
        ),
    ] = None,
    former: Former = None,
    key: Keys = None,
    identity: Identity = None,
    issuer: Issuer = None,
    instance: Instance = None,
    anyway: Anyway = False,
    as_json: AsJson = False,
) -> None:
    """Write a release's notes about reports, and the assets beside them.

    `notes.md` has the operating points against the claims, p95 against the load, what was assumed, what was not real,
    what changed since a former release, and how to verify. The assets are one ZIP file a report (the same report always
    gives the same bytes), the picture, and the hashes of all.

    Every report is verified first; one that is not, or that proves nothing, is refused.

    Exit codes: 0 written; 1 a report is not verified; 2 wrong usage; 4 a report is partial or invalid, or cannot be
    compared.
    """
    from bench.release.command import Wanted  # noqa: PLC0415  the heavy part
    from bench.release.command import release_notes as write  # noqa: PLC0415  as above
    from bench.report.trust.named import named_identity  # noqa: PLC0415  as above

    wanted = Wanted(
        reports=reports or (),
        formers=former or (),
        keys=key or (),
        identities=named_identity(identity, issuer),
        instance=instance,
        anyway=anyway,
    )
    raise typer.Exit(write(wanted, out, base_url_of_assets, as_json=as_json))


def attach(
    tag: Annotated[str, typer.Argument(metavar="TAG", help="Of the release.")],
    reports: Reports = None,
    *,
    repo: Annotated[
        str | None,
        typer.Option(metavar="OWNER/NAME", help="By default GITHUB_REPOSITORY, or the checkout's remote `origin`."),
    ] = None,
    api_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="REST API of a GitHub Enterprise Server, e.g. https://ghe.example/api/v3. By default GITHUB_API_URL, "
            "or https://api.github.com.",
        ),
    ] = None,
    create: Annotated[
        bool, typer.Option("--create", help="Make a draft where there is no release of this tag.")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace assets of the same name and another content.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Verify and look, but change nothing.")] = False,
    former: Former = None,
    key: Keys = None,
    identity: Identity = None,
    issuer: Issuer = None,
    instance: Instance = None,
    anyway: Anyway = False,
    as_json: AsJson = False,
) -> None:
    """Attach reports to a release on GitHub: the assets and the notes of `release-notes`.

    The token is read from GITHUB_TOKEN. Each upload is downloaded again and compared. What is there with the same
    SHA-256 is left alone, so that a call that was cut off is simply repeated; another file of the same name is an error
    unless `--replace` is given. The notes stand between two marks in the release's text, and only what is between them
    is ever changed.

    Exit codes: 0 attached; 1 it could not be done, or a dry run found a file that would have to be replaced; 2 wrong
    usage; 4 a report is partial or invalid, or cannot be compared.
    """
    from bench.release.command import Wanted, attach_reports  # noqa: PLC0415  the heavy part
    from bench.release.wishes import Wishes  # noqa: PLC0415  as above
    from bench.report.trust.named import named_identity  # noqa: PLC0415  as above

    wanted = Wanted(
        reports=reports or (),
        formers=former or (),
        keys=key or (),
        identities=named_identity(identity, issuer),
        instance=instance,
        anyway=anyway,
    )
    wishes = Wishes(create=create, replace=replace, dry_run=dry_run)
    raise typer.Exit(attach_reports(tag, wanted, wishes, repository=repo, api=api_url, as_json=as_json))
