"""`just bundle TARGET`: from the command line's words to a bundle, and what is told about it."""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.table import Table

from bench.bundle.archive import parse_size
from bench.bundle.cache_store import caches_home, newest_caches
from bench.bundle.cache_volumes import copy_volume, volumes
from bench.bundle.hosts import host_packages
from bench.bundle.image import ImageSource
from bench.bundle.make import Options, check_new, make_bundle
from bench.bundle.wheels import Host
from bench.engine.caches import read_manifest
from bench.engine.docker_host import connect
from bench.errors import UsageError
from bench.images.base import parse_base
from bench.images.build import ensure_image
from bench.images.definition import image_target
from bench.plan import plan_run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.bundle.make import Made
    from recipes.schema import Recipe


_OTHERWISE: Final = "Without --image the bundle carries packages, and needs no Docker."


def bundle(  # noqa: PLR0913  a command has as many options as it has
    recipe: Recipe,
    *,
    out: Path | None = None,
    part_size: str = "60MB",
    python: str = "3.12",
    host_provides: str = "bare",
    keep: Sequence[str] = (),
    with_checkpoint: bool = False,
    with_caches: bool = False,
    caches: Path | None = None,
    image: bool = False,
    base: str | None = None,
    overrides: Mapping[str, str] | None = None,
) -> int:
    """Makes a bundle and tells what is in it.

    Args:
        recipe: resolved.
        out: the folder to make; `dist/bundle-TARGET` by default.
        part_size: "60MB", "64MiB".
        python: of the host.
        host_provides: a preset or a file, see `bench.bundle.hosts`.
        keep: names of left-out rules that shall not apply.
        with_checkpoint: carry the weights too.
        with_caches: carry the caches of this recipe that were used last.
        caches: folder of compile caches to carry instead.
        image: carry the recipe's image for Docker instead of the engine's packages; it is built where it is not there.
        base: what that image is built on instead of the pinned base.
        overrides: those that `recipe` was resolved with: the run on the host will get them too.

    Returns:
        The exit code.

    Raises:
        StreamproofError: it cannot be made.
    """
    console = Console(highlight=False)
    options = Options(
        out=(out or Path("dist") / f"bundle-{recipe.target}").absolute(),
        part_size=parse_size(part_size),
        host=Host(python=python),
        host_packages=host_packages(host_provides),
        keep=tuple(keep),
        with_checkpoint=with_checkpoint,
        caches=caches,
        overrides=overrides or {},
    )
    check_new(options.out)  # before an image is built
    wanted = None if base is None else parse_base(base, python=None, glibc=None)
    with contextlib.ExitStack() as stack:
        if image or base:
            client = stack.enter_context(contextlib.closing(connect(otherwise=_OTHERWISE)))
            built = ensure_image(image_target(recipe), say=console.print, client=client, base=wanted)
            # A run tells images apart by the same (`bench.docker_run`).
            digest = built.definition_sha256 if base is None else built.id
            options = replace(options, image=ImageSource(client, built.reference, digest=digest, own=base is None))
        if with_caches and caches is None:
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            options = replace(options, caches=_newest(recipe, options.image, scratch))
        made = make_bundle(recipe, options, say=console.print)
        if options.caches is not None:
            tell_caches(options.caches, made, console)
        tell(made, console)
    return 0


def _newest(recipe: Recipe, image: ImageSource | None, scratch: Path) -> Path:
    """The newest caches of the engine that the host will run; out of Docker's volumes for an image.

    Raises:
        UsageError: there are none.
    """
    fingerprint = plan_run(recipe, image_digest=image.digest if image else None).engine_fingerprint
    if newest := newest_caches(caches_home(), fingerprint):
        return newest.folder
    if image is not None:
        for made_with in volumes(image.client).values():
            if made_with.fingerprint == fingerprint:
                return copy_volume(image.client, made_with, scratch)
    raise UsageError(
        f"there are no caches of {recipe.target} with the fingerprint {fingerprint[:12]} (of its engine) here.",
        remedy=f"Run it once on the card that they shall be for (just repro {recipe.target}), or import them "
        "(just caches import).",
    )


def tell_caches(folder: Path, made: Made, console: Console) -> None:
    """What the caches were made with, and whether an engine of this bundle can use them at all."""
    described = read_manifest(folder)
    if described is None:
        return
    driver = f" and driver {described.driver}" if described.driver else ""
    console.print(f"caches for {' + '.join(described.devices)}{driver}: on anything else the first start is a cold one")
    if made.packages is not None and made.packages != described.packages:
        console.print(
            "[bold yellow]they were made with other packages than this bundle has, and will not be used:[/] "
            "run this bundle on such a host once, and export its caches there"
        )


def tell(made: Made, console: Console) -> None:
    """What was made: parts, what was left out, who signed, what to do with it."""
    left_out = Table("left out", "MB", "why", box=None, pad_edge=False)
    for saving in sorted(made.savings, key=lambda saving: -saving.size):
        left_out.add_row(saving.rule.name, f"{saving.size / 1e6:,.1f}", saving.rule.why)
    console.print(left_out)
    for archive in made.manifest.archives:
        packed = sum(part.size for part in archive.parts)
        console.print(
            f"[bold]{archive.name}[/]  {archive.file_count:,} files, {archive.unpacked_size / 1e6:,.0f} MB, packed "
            f"{packed / 1e6:,.1f} MB in {len(archive.parts)} part{'s' if len(archive.parts) != 1 else ''}"
        )
    if made.uncommitted:
        shown = ", ".join(made.uncommitted[:5]) + (", ..." if len(made.uncommitted) > 5 else "")
        console.print(f"[yellow]not in it, since it is not committed:[/] {shown}")
    needs = len(made.manifest.host_provides)
    console.print(
        f"for {made.manifest.machine}, CPython {made.manifest.python}, glibc {made.manifest.glibc} or newer"
        + (f"; the host must have {needs} packages of its own (manifest.json names them)" if needs else "")
    )
    console.print(f"signed by {made.signer}")
    console.print(f"[bold]bundle[/]  {made.folder}\nOn the host: sh install.sh --signer {made.signer}", soft_wrap=True)
