"""`just pin`: asks the registries and package indexes again what the project pins, and writes down what they say."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console

from bench.engine.pins import PINS_FILE, REPOSITORY, load_pins
from bench.errors import UsageError
from bench.images.definition import image_target
from bench.images.pin_file import rewrite
from bench.images.pin_finding import Finding, State
from bench.images.pin_images import check_image
from bench.images.pin_locks import UV_LOCK, check_lock, check_uv_lock, find_locks
from bench.images.pin_show import show
from bench.images.registry import Registries
from bench.report.folder_files import write_whole
from recipes.load import load_recipe, targets

if TYPE_CHECKING:
    from bench.engine.pins import Pins
    from bench.images.pin_locks import Lock
    from recipes.schema import Recipe

IMAGES: Final = "images"
LOCKS: Final = "locks"

OUT_OF_DATE: Final = 3
"""Exit code: a pin is contradicted, or, with `check`, something differs."""

NOT_CHECKED: Final = 4
"""Exit code: somebody could not be asked, and all who could agree with what is pinned."""


def pin(  # noqa: PLR0913  the options of a command, and what tests put in their place
    *,
    check: bool,
    only: str | None,
    upgrade: bool,
    repository: Path = REPOSITORY,
    registries: Callable[[], Registries] = Registries,
    today: Callable[[], dt.date] = lambda: dt.datetime.now(dt.UTC).date(),
    console: Console | None = None,
) -> int:
    """Checks every pin, tells, and writes.

    Args:
        check: write nothing.
        only: "images", "locks", or the name of one; None for everything.
        upgrade: take the newest versions that the .in files allow into the locks.
        repository: whose docker/pins.toml and docker/locks are meant.
        registries: makes what asks.
        today: the date to write.
        console: where to tell.

    Returns:
        The exit code: 0, `OUT_OF_DATE` or `NOT_CHECKED`.

    Raises:
        UsageError: nothing is called `only`.
        StreamproofError: a file cannot be read or written.
    """
    console = console or Console(highlight=False)
    pins_file = repository / PINS_FILE.relative_to(REPOSITORY)
    pins = load_pins(pins_file)
    locks = find_locks(pins_file.parent / "locks", repository)
    _known(only, {*pins.images, *(lock.name for lock in locks), UV_LOCK})
    recipes = [load_recipe(name) for name in targets()]

    images = []
    with registries() as asked:
        for name, image in pins.images.items():
            if only in (None, IMAGES, name):
                console.print(f"asking for {image.reference}", style="dim")
                images.append(
                    check_image(name, image, asked, today=today(), recipes=_touched(pins, recipes, image=name))
                )
    closures = []
    for lock in locks:
        if only in (None, LOCKS, lock.name):
            console.print(f"resolving {lock.path.name}", style="dim")
            closures.append((lock, check_lock(lock, upgrade=upgrade, recipes=_touched(pins, recipes, lock=lock.name))))
    findings = [*images, *(finding for _, finding in closures)]
    if only in (None, LOCKS, UV_LOCK):
        findings.append(check_uv_lock(repository))

    if not check:
        rewrite(pins_file, images)
        _write(closures)
    show(findings, console, written=not check)
    return _code(findings, check=check)


def _known(only: str | None, names: set[str]) -> None:
    if only is not None and only not in {IMAGES, LOCKS, *names}:
        raise UsageError(
            f"--only {only}: nothing of this name is pinned.",
            remedy=f"It can be {IMAGES}, {LOCKS}, or one of {', '.join(sorted(names))}.",
        )


def _touched(pins: Pins, recipes: Iterable[Recipe], *, image: str | None = None, lock: str | None = None) -> list[str]:
    """What runs on an image or a lock: recipes by their name, and images of ours that no recipe has the name of."""
    built = {
        name
        for name, target in pins.targets.items()
        if target.base == image or (lock is not None and target.lock == f"docker/locks/{lock}.txt")
    }
    named = {
        recipe.target
        for recipe in recipes
        if (image is not None and recipe.engine.image == image)
        or (lock is not None and recipe.engine.lock == lock)
        or _image_of(recipe, pins) in built
    }
    return [*sorted(named), *(f"image {name}" for name in sorted(built - named))]


def _image_of(recipe: Recipe, pins: Pins) -> str | None:
    try:
        return image_target(recipe, pins=pins)
    except UsageError:
        return None


def _write(closures: Iterable[tuple[Lock, Finding]]) -> None:
    for lock, finding in closures:
        if finding.content is not None:
            write_whole(lock.path, finding.content.encode())


def _code(findings: Iterable[Finding], *, check: bool) -> int:
    states = {finding.state for finding in findings}
    if State.CONTRADICTED in states or (check and State.CHANGED in states):
        return OUT_OF_DATE
    return NOT_CHECKED if State.NOT_CHECKED in states else 0
