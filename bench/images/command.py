"""From the words of `just build` to an image, and what is told about it."""

from __future__ import annotations

import dataclasses
import json
import sys
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.table import Table

from bench.engine.docker_host import connect
from bench.engine.pins import load_pins
from bench.errors import Exit, UsageError
from bench.images.base import Base, parse_base
from bench.images.build import BuiltImage, find_image, prepared
from bench.images.definition import ImageDefinition, image_definition
from bench.images.labels import DIRTY, REVISION
from bench.images.reproducible import build_twice

if TYPE_CHECKING:
    from pathlib import Path

    from bench.engine.install import Say
    from bench.images.reproducible import Comparison

_NO_DOCKER: Final = "What an image is made of can be seen without Docker: just build --list."
_SHOWN_DIFFERENCES: Final = 30
_GB: Final = 1e9


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What the command line says.

    Attributes:
        base_image: "NAME@sha256:..." instead of the pinned base.
        base_python: Python of that base.
        base_glibc: minor version of its GNU C library 2.
        caches: folder of compile caches to bake in.
        check_reproducible: build twice and compare.
        attest: attach provenance and a bill of materials, where the engine can keep them.
        quiet: say nothing but errors.
        as_json: the outcome as JSON.
    """

    base_image: str | None = None
    base_python: str | None = None
    base_glibc: int | None = None
    caches: Path | None = None
    check_reproducible: bool = False
    attest: bool = True
    quiet: bool = False
    as_json: bool = False


def build_image(target: str | None, wishes: Wishes) -> Exit:
    """Builds an image, or finds it, and tells about it.

    Args:
        target: name in docker/pins.toml.
        wishes: what the command line says.

    Returns:
        The exit code: failure when two builds differ.

    Raises:
        UsageError: no target, or a base that says too little.
        StreamproofError: it cannot be built.
    """
    if target is None:
        raise UsageError("no image is named.", remedy="just build TARGET; just build --list shows them.")
    definition = image_definition(target, base=_base(target, wishes), caches=wishes.caches)
    out = Console(highlight=False, soft_wrap=True)
    console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    say: Say = (lambda _: None) if wishes.quiet else console.print
    with closing(connect(otherwise=_NO_DOCKER)) as client:
        found = None if wishes.check_reproducible else find_image(client, definition)
        if found is not None:
            _tell(found, out, as_json=wishes.as_json)
            return Exit.OK
        terminal = console.is_terminal and not wishes.quiet
        with prepared(
            definition, client, caches=wishes.caches, say=say, terminal=terminal, attest=wishes.attest
        ) as ready:
            if not wishes.check_reproducible:
                _tell(ready.run(definition.tag), out, as_json=wishes.as_json)
                return Exit.OK
            comparison = build_twice(ready)
    _tell_comparison(comparison, out, as_json=wishes.as_json)
    return Exit.OK if comparison.same else Exit.FAILURE


def list_images(*, as_json: bool) -> None:
    """Tells which images there are and what defines them. Needs no Docker."""
    definitions = [image_definition(name) for name in load_pins().targets]
    if as_json:
        sys.stdout.write(json.dumps([_as_data(definition) for definition in definitions]) + "\n")
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("target", "definition"):
        table.add_column(heading, no_wrap=True)
    for heading in ("what it is", "built on"):
        table.add_column(heading, overflow="fold")
    for definition in definitions:
        name = f"[bold]{definition.target}[/]"
        table.add_row(name, definition.sha256[:12], definition.title, definition.base.name)
    Console(highlight=False).print(table)


def _base(target: str, wishes: Wishes) -> Base | None:
    if wishes.base_image is not None:
        return parse_base(wishes.base_image, python=wishes.base_python, glibc=wishes.base_glibc)
    if wishes.base_python is not None or wishes.base_glibc is not None:
        raise UsageError(
            "--base-python and --base-glibc describe the base that --base-image names.",
            remedy=f"just build {target} --base-image NAME@sha256:... --base-python 3.11",
        )
    return None


def _as_data(definition: ImageDefinition) -> dict[str, object]:
    return {
        "target": definition.target,
        "tag": definition.tag,
        "definition_sha256": definition.sha256,
        "stage": definition.stage,
        "base": definition.base.reference,
        "lock": definition.lock,
        "carries": dict(definition.carries),
        "title": definition.title,
    }


def _tell(image: BuiltImage, out: Console, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(dataclasses.asdict(image)) + "\n")
        return
    out.print(f"[bold]{image.reference}[/]" + ("  (it was there)" if image.cached else ""))
    out.print(f"  id          {image.id}")
    out.print(f"  definition  {image.definition_sha256}")
    out.print(f"  base        {image.base_digest}")
    out.print(f"  revision    {image.labels.get(REVISION)}")
    out.print(f"  size        {image.size / _GB:.2f} GB in {len(image.layers)} layers")
    if files := image.labels.get(DIRTY):
        out.print(f"[yellow]not committed:[/] {files}")


def _tell_comparison(comparison: Comparison, out: Console, *, as_json: bool) -> None:
    image = comparison.image
    if as_json:
        outcome = {"same": comparison.same, "layers": image.layers, "second_layers": comparison.second_layers}
        sys.stdout.write(json.dumps({**outcome, "differing": comparison.differing, "image": image.reference}) + "\n")
        return
    if comparison.same:
        out.print(f"[green]reproducible[/]: two builds of {image.reference} have the same {len(image.layers)} layers")
        for digest in image.layers:
            out.print(f"  {digest}")
        return
    out.print(f"[red]not reproducible[/]: two builds of {image.reference} differ")
    for line in comparison.differing[:_SHOWN_DIFFERENCES]:
        out.print(f"  {line}", markup=False)
    more = len(comparison.differing) - _SHOWN_DIFFERENCES
    if more > 0:
        out.print(f"  and {more} more")
