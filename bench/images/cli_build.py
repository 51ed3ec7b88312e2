"""`just build TARGET`: the options, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def build(
    target: Annotated[str | None, typer.Argument(help="An image of docker/pins.toml (see --list).")] = None,
    *,
    list_them: Annotated[
        bool, typer.Option("--list", help="The images that can be built, with their definitions. Needs no Docker.")
    ] = False,
    base_image: Annotated[
        str | None,
        typer.Option(
            metavar="NAME@sha256:...",
            help="Build on another base than the pinned one: a copy in a registry of yours, or a stand-in. It is named "
            "in the image's labels and definition.",
        ),
    ] = None,
    base_python: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Python of that base, if it is another: 3.11")
    ] = None,
    base_glibc: Annotated[
        int | None, typer.Option(metavar="MINOR", help="GNU C library of that base, if it is older: 31 for 2.31")
    ] = None,
    with_caches: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Bake a recipe's compile caches into the image.")
    ] = None,
    check_reproducible: Annotated[
        bool,
        typer.Option(
            "--check-reproducible",
            help="Build twice from nothing and compare the layers. Where they differ, the files are named (exit 1).",
        ),
    ] = False,
    attest: Annotated[
        bool,
        typer.Option(
            help="Attach provenance and a bill of materials, where buildx and the containerd image store are there. "
            "The program that lists the materials is fetched from Docker's registry."
        ),
    ] = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The outcome as JSON, for scripts.")] = False,
) -> None:
    """Build an image: pinned base, packages by hash, no network while it is built.

    The packages are fetched first and kept; an image that is there already is not built again. It is called
    streamproof/TARGET:<first 12 digits of its definition>.
    """
    from bench.images.command import Wishes, build_image, list_images  # noqa: PLC0415  Docker's SDK: only where needed

    if list_them:
        list_images(as_json=as_json)
        return
    wishes = Wishes(
        base_image=base_image,
        base_python=base_python,
        base_glibc=base_glibc,
        caches=with_caches,
        check_reproducible=check_reproducible,
        attest=attest,
        quiet=quiet,
        as_json=as_json,
    )
    raise typer.Exit(build_image(target, wishes))
