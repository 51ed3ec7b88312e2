"""`just caches`: what engines have compiled, listed, carried and removed."""

from __future__ import annotations

import contextlib
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.markup import escape

from bench.errors import UsageError

if TYPE_CHECKING:
    from bench.bundle.cache_store import StoredCaches
    from bench.engine.caches import MadeWith

app: Final = typer.Typer(
    no_args_is_help=False,
    rich_markup_mode="markdown",
    help="What engines have compiled, so that the next start is a warm one.\n\n"
    "Every recipe has its own caches, apart for every card, driver, engine release and package set: code that was made "
    "for another one is never used. Without a command: list them.",
)

_DAY_S: Final = 86_400

_DIGITS: Final = 8
"""Of a fingerprint, to name it."""


@app.callback(invoke_without_command=True)
def list_caches(context: typer.Context) -> None:
    """List them when no command is given."""
    if context.invoked_subcommand is not None:
        return
    from bench.bundle.cache_store import caches_home, stored_caches  # noqa: PLC0415  loaded for this command only

    home, console = caches_home(), Console(highlight=False)
    found, volumes = stored_caches(home), _volumes()
    for stored in found:
        if stored.made_with is not None:
            used = (
                f"{stored.size / 1e6:,.1f} MB{' (cold)' if stored.cold else ''}, used {_age(time.time() - stored.used)}"
            )
            _show("/".join(stored.folder.parts[-2:]), stored.made_with, used, console)
    for name, made_with in volumes.items():
        _show(name, made_with, "a volume of Docker", console)
    if unknown := [stored for stored in found if stored.made_with is None]:
        size = sum(stored.size for stored in unknown) / 1e6
        console.print(
            f"{len(unknown)} folders, {size:,.1f} MB, of which nobody says what they were made with: they are not "
            "used, and just caches prune removes them"
        )
    console.print(f"in {home}" if found else f"no caches yet in {home}", style="dim", soft_wrap=True)


@app.command(name="export")
def export_command(
    target: Annotated[str, typer.Argument(help="A target, a recipe's path, or the beginning of a fingerprint.")],
    out: Annotated[Path, typer.Option(help="A folder to make, or a file NAME.tar.xz.")],
    *,
    docker: Annotated[bool, typer.Option("--docker", help="Those in a volume of Docker.")] = False,
) -> None:
    """Copy the newest caches of a target into a folder or a file.

    The file is not signed: who imports it must say that its code may be executed. `just bundle TARGET --with-caches`
    carries the same caches signed.
    """
    from bench.bundle.cache_move import export_caches  # noqa: PLC0415
    from bench.bundle.cache_store import caches_home, stored_caches  # noqa: PLC0415

    if docker:
        _export_volume(target, out.absolute())
        return
    described = ((stored, stored.made_with) for stored in stored_caches(caches_home()) if not stored.cold)
    found = [stored for stored, made_with in described if made_with is not None and _is_of(made_with, target)]
    if not found:
        raise UsageError(
            f"there are no caches of {target} here.",
            remedy="`just caches` lists those that are; those in Docker's volumes are exported with --docker.",
        )
    export_caches(found[0].folder, out.absolute())
    Console(highlight=False).print(f"exported {found[0].folder} to {out}", soft_wrap=True)


def _export_volume(target: str, out: Path) -> None:
    from bench.bundle.cache_move import export_caches  # noqa: PLC0415
    from bench.bundle.cache_volumes import copy_volume, volumes  # noqa: PLC0415
    from bench.engine.docker_host import connect  # noqa: PLC0415

    out.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(connect()) as client, tempfile.TemporaryDirectory(dir=out.parent) as scratch:
        found = {name: made_with for name, made_with in volumes(client).items() if _is_of(made_with, target)}
        if len(found) != 1:
            raise UsageError(
                f"Docker has {len(found)} volumes with caches of {target}.",
                remedy="Name one by the beginning of its fingerprint; `just caches` lists them.",
            )
        (name, made_with) = next(iter(found.items()))
        export_caches(copy_volume(client, made_with, Path(scratch)), out)
    Console(highlight=False).print(f"exported the volume {name} to {out}", soft_wrap=True)


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
    """Remove caches that are no longer used, and those that nobody describes. Docker's volumes stay."""
    from bench.bundle.cache_store import caches_home, remove, stored_caches  # noqa: PLC0415

    console, limit = Console(highlight=False), time.time() - older_than * _DAY_S
    freed = 0
    for stored in stored_caches(caches_home()):
        if _is_stale(stored, limit) if only is None else _is_named(stored, only):
            if not dry_run:
                remove(stored)
            freed += stored.size
            console.print(f"{'would remove' if dry_run else 'removed'} {stored.folder}", soft_wrap=True)
    console.print(f"{freed / 1e6:,.1f} MB{' could be freed' if dry_run else ' freed'}")


def _is_stale(stored: StoredCaches, limit: float) -> bool:
    return stored.made_with is None or stored.used <= limit


def _is_named(stored: StoredCaches, name: str) -> bool:
    if stored.made_with is None:
        return stored.folder.parent.name == name[: len(stored.folder.parent.name)]
    return _is_of(stored.made_with, name)


def _volumes() -> dict[str, MadeWith]:
    """Those of this host's Docker; none where there is no Docker."""
    from bench.bundle.cache_volumes import volumes  # noqa: PLC0415
    from bench.engine.docker_host import DockerUnavailableError, connect  # noqa: PLC0415

    try:
        with contextlib.closing(connect()) as client:
            return volumes(client)
    except DockerUnavailableError:
        return {}


def _is_of(made_with: MadeWith, target: str) -> bool:
    return made_with.target == Path(target).stem or (
        len(target) >= _DIGITS and made_with.fingerprint.startswith(target)
    )


def _age(seconds: float) -> str:
    hours = seconds / 3600
    return f"{hours:.0f} h ago" if hours < 48 else f"{hours / 24:.0f} days ago"


def _show(place: str, made_with: MadeWith, used: str, console: Console) -> None:
    """One of them in a few lines that fit into 80 columns."""
    driver = f", driver {made_with.driver}" if made_with.driver else ""
    packages = made_with.packages.removeprefix("sha256:")[:12]
    console.print(f"[bold]{escape(made_with.target)}[/]  {place}  {used}", soft_wrap=True)
    console.print(f"    made on {escape(' + '.join(made_with.devices))}{driver}", soft_wrap=True)
    console.print(f"    {made_with.engine}, vLLM {escape(made_with.version)}, packages {packages}", soft_wrap=True)
    if made_with.run:
        console.print(f"    begun by {escape(made_with.run)}", soft_wrap=True)
    if made_with.came_from:
        console.print(f"    brought here, {escape(made_with.came_from)}", soft_wrap=True)
