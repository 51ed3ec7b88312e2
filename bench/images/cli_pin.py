"""`just pin`: its options and its help."""

from __future__ import annotations

from typing import Annotated

import typer


def pin(
    *,
    check: Annotated[bool, typer.Option("--check", help="Change nothing; tell what would change.")] = False,
    only: Annotated[
        str | None, typer.Option(metavar="images|locks|NAME", help="Only the images, only the locks, or only one.")
    ] = None,
    upgrade: Annotated[
        bool, typer.Option("--upgrade", help="Take the newest versions that docker/locks/*.in allow into the locks.")
    ] = False,
) -> None:
    """Ask the registries and package indexes again what the project pins.

    Every image of `docker/pins.toml` (index and linux/amd64 digest, platform, build commit) is asked of its registry,
    every lock of `docker/locks` is resolved again by the command that its `.in` file gives, and `uv.lock` is compared
    with `pyproject.toml`. Digests, dates and locks are rewritten, and nothing else. Whoever cannot be asked leaves the
    entry as it is, its note on how it was found included.

    Logins are those of `docker login`. Exit codes: 0 everything was checked and is written down; 3 a pin is
    contradicted, or, with --check, something differs; 4 somebody could not be asked.
    """
    from bench.images.pin import pin as check_pins  # noqa: PLC0415  the heavy part: loaded for this command only

    raise typer.Exit(check_pins(check=check, only=only, upgrade=upgrade))
