"""`just caches`: what engines have compiled, listed, carried and removed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench.errors import UsageError

if TYPE_CHECKING:
    from bench.bundle.cache_store import StoredCaches

app: Final = typer.Typer(
    no_args_is_help=False,
    rich_markup_mode="markdown",
    help="What engines have compiled, so that the next start is a warm one.\n\n"
    "Every recipe has its own caches, apart for every card, driver, engine release and package set: code that was made "
    "for another one is never used. Without a command: list them.",
)

_DAY_S: Final = 86_400


@app.callback(invoke_without_command=True)
def list_caches(context: typer.Context) -> None:
    """List them when no command is given."""
    if context.invoked_subcommand is not None:
        return
    from bench.bundle.cache_store import caches_home, stored_caches  # noqa: PLC0415  loaded for this command only

    home, console = caches_home(), Console(highlight=False)
    table = Table("caches", "target", "made with", "MB", "used", "from", box=None, pad_edge=False)
    for stored in stored_caches(home):
        table.add_row(*_row(stored, time.time()))
    if table.row_count:
        console.print(table)
    console.print(f"in {home}" if table.row_count else f"no caches yet in {home}", style="dim", soft_wrap=True)


@app.command(name="export")
def export_command(
    target: Annotated[str, typer.Argument(help="A target, a recipe's path, or the beginning of a fingerprint.")],
    out: Annotated[Path, typer.Option(help="A folder to make, or a file NAME.tar.xz.")],
) -> None:
    """Copy the newest caches of a target into a folder or a file.

    The file is not signed: who imports it must say that its code may be executed. `just bundle TARGET --with-caches`
    carries the same caches signed.
    """
    from bench.bundle.cache_move import export_caches  # noqa: PLC0415

    stored = _one(target)
    export_caches(stored, out.absolute())
    Console(highlight=False).print(f"exported {'/'.join(stored.folder.parts[-2:])} to {out}", soft_wrap=True)


@app.command(name="import")
def import_command(
    source: Annotated[Path, typer.Argument(help="The folder of a bundle, or what `export` made.", exists=True)],
    signer: Annotated[
        str | None, typer.Option(metavar="KEY_ID", help="The key that must have signed the bundle (64 hex digits).")
    ] = None,
    *,
    accept_code: Annotated[
        bool,
        typer.Option(
            "--accept-code", help="I know who made it: execute what is in it, though nobody I trust signed it."
        ),
    ] = False,
) -> None:
    """Bring caches in.

    **Caches are code, and the engine executes it with your rights.** They are taken from a bundle that your own key or
    one in `keys/` signed, from a bundle of `--signer`, or from anywhere with `--accept-code`.
    """
    from bench.bundle.cache_move import Trust, import_caches  # noqa: PLC0415
    from bench.bundle.cache_store import caches_home  # noqa: PLC0415
    from bench.engine.pins import REPOSITORY  # noqa: PLC0415
    from bench.report.keys import trusted_keys  # noqa: PLC0415

    trust = Trust(keys=trusted_keys(allow_list=REPOSITORY / "keys"), signer=signer, accepted=accept_code)
    import_caches(source, caches_home(), trust, say=Console(highlight=False).print)


@app.command(name="prune")
def prune(
    older_than: Annotated[int, typer.Option(metavar="DAYS", help="Those that no start used for so long.", min=0)] = 30,
    only: Annotated[
        str | None, typer.Option(metavar="TARGET|FINGERPRINT", help="Only of this target; whatever their age.")
    ] = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
) -> None:
    """Remove caches that are no longer used, and those that nobody describes."""
    from bench.bundle.cache_store import caches_home, remove, stored_caches  # noqa: PLC0415

    console, limit = Console(highlight=False), time.time() - older_than * _DAY_S
    freed = 0
    for stored in stored_caches(caches_home()):
        wanted = _is_of(stored, only) if only is not None else stored.made_with is None or stored.used <= limit
        if wanted:
            freed += stored.size
            console.print(f"{'would remove' if dry_run else 'removed'} {stored.folder}", soft_wrap=True)
            if not dry_run:
                remove(stored)
    console.print(f"{freed / 1e6:,.1f} MB{' could be freed' if dry_run else ' freed'}")


def _one(target: str) -> StoredCaches:
    from bench.bundle.cache_store import caches_home, stored_caches  # noqa: PLC0415

    found = [stored for stored in stored_caches(caches_home()) if _is_of(stored, target) and not stored.cold]
    if not found:
        raise UsageError(f"there are no caches of {target} here.", remedy="`just caches` lists those that are.")
    return found[0]


def _is_of(stored: StoredCaches, target: str) -> bool:
    made_with = stored.made_with
    if made_with is None:
        return stored.folder.parent.name == target
    return made_with.target == Path(target).stem or (len(target) >= 8 and made_with.fingerprint.startswith(target))


def _row(stored: StoredCaches, now: float) -> tuple[str, ...]:
    place = "/".join(stored.folder.parts[-2:])
    age_h = (now - stored.used) / 3600
    used = f"{age_h:.0f} h ago" if age_h < 48 else f"{age_h / 24:.0f} days ago"
    size = f"{stored.size / 1e6:,.1f}" + (" (cold)" if stored.cold else "")
    made_with = stored.made_with
    if made_with is None:
        return place, "?", "nobody says: not used", size, used, ""
    driver = f", driver {made_with.driver}" if made_with.driver else ""
    machine = f"{' + '.join(made_with.devices)}{driver}"
    software = (
        f"{made_with.engine}, vLLM {made_with.version}, packages {made_with.packages.removeprefix('sha256:')[:12]}"
    )
    origin = "; ".join(filter(None, (made_with.run, made_with.came_from)))
    return place, escape(made_with.target), escape(f"{machine}\n{software}"), size, used, escape(origin)
