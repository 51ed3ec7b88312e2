"""The command `keys`: who signs here, and who is trusted."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.text import Text

from bench.errors import UsageError
from bench.report.trust.validity import Reason

app: Final = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Show, make and exchange your key, and say whose signatures are trusted and for how long.\n\n"
    "Your key is made on first use, in `~/.config/streamproof/keys`. Whom a checkout trusts stands in its folder "
    "`keys/`: PEM keys, and `trust.toml` with names, times and identities of keyless signatures.",
)

Folder = Annotated[
    Path | None,
    typer.Option("--in", metavar="DIR", help="The allow list to change; by default `keys/` of this checkout."),
]
Why = Annotated[str, typer.Option(metavar="TEXT", help="Why, for people.")]
ReasonOption = Annotated[
    Reason,
    typer.Option(
        help="`compromised`: somebody else may use it, so nothing that it ever signed counts. The others end it: what "
        "it signed before still counts.",
    ),
]


@app.command("list")
def list_keys(*, as_json: Annotated[bool, typer.Option("--json", help="As JSON, for scripts.")] = False) -> None:
    """List everybody whose signatures count here: your key, your former keys, and the allow list of this checkout."""
    from bench.report.keys import trusted_keys  # noqa: PLC0415  cryptography: only where it is needed
    from bench.report.trust import show_keys  # noqa: PLC0415  as above
    from bench.report.trust.allow_list import read_allow_list  # noqa: PLC0415  as above
    from bench.report.verify_show import ALLOW_LIST  # noqa: PLC0415  as above

    trust, now = trusted_keys(allow_list=ALLOW_LIST), datetime.now(UTC)
    found = show_keys.lines(trust, ALLOW_LIST, read_allow_list(ALLOW_LIST))
    if as_json:
        typer.echo(json.dumps(show_keys.as_data(found, now), indent=2))
    elif found:
        Console(highlight=False).print(show_keys.table(found, now))
    else:
        typer.echo("Nobody is trusted here, and you have no key yet; it is made when you sign your first report.")


@app.command()
def new() -> None:
    """Make your key, if you have none; otherwise it is made when you sign your first report."""
    from bench.report import keys  # noqa: PLC0415  as above
    from bench.report.trust import own  # noqa: PLC0415  as above

    folder = keys.keys_folder()
    _tell_new(own.new(folder).key_id, folder)


@app.command()
def rotate(*, reason: ReasonOption = "superseded", why: Why = "") -> None:
    """Exchange your key for a new one.

    The former private key is deleted. Reports that it signed stay trusted on this machine, unless it was compromised;
    for others, have the new public key added to their allow list and the former one revoked there.
    """
    from bench.report import keys  # noqa: PLC0415  as above
    from bench.report.trust import own  # noqa: PLC0415  as above

    folder = keys.keys_folder()
    done = own.rotate(folder, reason, why)
    _tell_new(done.signer.key_id, folder)
    if done.former is not None:
        typer.echo(f"The key before it is deleted: {done.former}")
        typer.echo(f"Where others trust it: just keys revoke {done.former[:16]} --reason {reason}")


@app.command()
def add(
    pem: Annotated[Path | None, typer.Argument(help="Public key, e.g. the `signer.pub.pem` of a report.")] = None,
    *,
    whose: Annotated[str, typer.Option(metavar="TEXT", help="Whose it is, for people. You looked that up elsewhere.")],
    identity: Annotated[
        str | None,
        typer.Option(help="Instead of a key: who signs keyless; a `*` at its end, after an `@`, stands for any rest."),
    ] = None,
    issuer: Annotated[str | None, typer.Option(metavar="URL", help="With --identity: who vouches for it.")] = None,
    not_before: Annotated[str | None, typer.Option(metavar="DAY", help="Trusted from this day on, UTC.")] = None,
    not_after: Annotated[
        str | None, typer.Option(metavar="DAY", help="Trusted up to this day, itself included.")
    ] = None,
    folder: Folder = None,
) -> None:
    """Trust a key, or an identity of keyless signatures, by an entry in the allow list."""
    from bench.report.trust import edit  # noqa: PLC0415  as above

    place = _folder(folder)
    limits = edit.Limits(_day(not_before), _day(not_after))
    if (pem is None) == (identity is None) or (identity is None) != (issuer is None):
        raise UsageError(
            "keys add takes either a PEM file, or both --identity and --issuer.",
            remedy="E.g. just keys add their.pem --whose 'the lab in Oslo, told by phone'",
        )
    if pem is not None:
        typer.echo(f"added {place / edit.add_pem(place, pem, whose, limits)}")
    else:
        edit.add_identity(place, identity or "", issuer or "", whose, limits)
        typer.echo(f"added to {place / 'trust.toml'}: {identity}")
    typer.echo("Commit it: from then on everybody with this checkout trusts it.")


@app.command()
def revoke(
    name: Annotated[
        str, typer.Argument(help="A key's file, the beginning of its id (8 digits or more), or an identity.")
    ],
    *,
    reason: ReasonOption,
    why: Why = "",
    on: Annotated[
        str | None, typer.Option(metavar="DAY", help="From this day on, UTC; by default from now on.")
    ] = None,
    folder: Folder = None,
) -> None:
    """End the trust in a key or an identity of the allow list. The entry stays, so that people read why."""
    from bench.report.trust import edit  # noqa: PLC0415  as above

    place = _folder(folder)
    at = _day(on) or datetime.now(UTC).replace(microsecond=0)
    if "@" in name or "/" in name:
        edit.revoke_identity(place, name, reason=reason, why=why, at=at)
    else:
        edit.revoke_file(place, edit.entry_file(place, name), reason=reason, why=why, at=at)
    typer.echo(f"{place / 'trust.toml'} says so. Commit it: from then on it counts for everybody with this checkout.")


def _folder(given: Path | None) -> Path:
    from bench.report.verify_show import ALLOW_LIST  # noqa: PLC0415  as above

    return ALLOW_LIST if given is None else given


def _day(text: str | None) -> date | None:
    if text is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"{text} is no day.", remedy="Write it as 2026-11-30.") from error


def _tell_new(key_id: str, folder: Path) -> None:
    console = Console(highlight=False, soft_wrap=True)
    console.print(Text(f"Your key: {key_id}"))
    console.print(Text(f"Its public half, for the allow lists of others: {folder / 'signer.pub.pem'}"))
