"""The command `verify`: its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def verify(
    report: Annotated[
        str,
        typer.Argument(
            metavar="DIR|ARCHIVE|URL",
            help="A report's folder, a ZIP or tar(.gz) of it, or the https address of one (http only of this machine).",
        ),
    ],
    key: Annotated[
        list[Path] | None,
        typer.Option(help="Public key (PEM) of a signer you trust, besides your own and those in `keys/`."),
    ] = None,
    identity: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="With --issuer: an identity whose keyless signature you trust, as its certificate has it; at the end "
            "of a URL with an `@`, a `*` stands for any rest. Those in `keys/` are trusted without it.",
        ),
    ] = None,
    issuer: Annotated[str | None, typer.Option(metavar="URL", help="Who vouches for --identity.")] = None,
    instance: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Sigstore instance of keyless signatures (ClientTrustConfig); the public one by default.",
        ),
    ] = None,
    *,
    sha256: Annotated[
        str | None, typer.Option(metavar="HEX", help="The archive must have this SHA-256; others are not unpacked.")
    ] = None,
    max_size: Annotated[str, typer.Option(metavar="SIZE", help="Fetch or unpack no larger archive.")] = "512MiB",
    keep: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Unpack to this new folder, and leave it there; by default nothing is left."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The outcome as JSON, for scripts.")] = False,
) -> None:
    """Check a report without an engine.

    First the signature and every file's digest, then every figure and every verdict again from the raw records. What is
    fetched is unpacked into a temporary folder, which is removed. The report is treated as hostile throughout.
    """
    # The heavy part: loaded for this command only.
    from bench.bundle.archive import parse_size  # noqa: PLC0415
    from bench.report.intake.command import verify_place  # noqa: PLC0415
    from bench.report.intake.place import Wishes, parse_sha256  # noqa: PLC0415
    from bench.report.trust.named import named_identity  # noqa: PLC0415

    wishes = Wishes(sha256=None if sha256 is None else parse_sha256(sha256), most=parse_size(max_size), keep=keep)
    named = named_identity(identity, issuer)
    code = verify_place(report, key or [], wishes, identities=named, instance=instance, as_json=as_json)
    raise typer.Exit(code)
