"""`just bundle TARGET`: from the command line's words to a bundle, and what is told about it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from bench.bundle.archive import parse_size
from bench.bundle.hosts import host_packages
from bench.bundle.make import Options, make_bundle
from bench.bundle.wheels import Host

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.bundle.make import Made
    from recipes.schema import Recipe


def bundle(  # noqa: PLR0913  a command has as many options as it has
    recipe: Recipe,
    *,
    out: Path | None = None,
    part_size: str = "60MB",
    python: str = "3.12",
    host_provides: str = "bare",
    keep: Sequence[str] = (),
    with_checkpoint: bool = False,
    with_caches: Path | None = None,
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
        with_caches: folder of compile caches to carry.
        overrides: those that `recipe` was resolved with: the run on the host will get them too.

    Returns:
        The exit code.

    Raises:
        StreamproofError: it cannot be made.
    """
    options = Options(
        out=(out or Path("dist") / f"bundle-{recipe.target}").absolute(),
        part_size=parse_size(part_size),
        host=Host(python=python),
        host_packages=host_packages(host_provides),
        keep=tuple(keep),
        with_checkpoint=with_checkpoint,
        caches=with_caches,
        overrides=overrides or {},
    )
    console = Console(highlight=False)
    tell(make_bundle(recipe, options, say=console.print), console)
    return 0


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
