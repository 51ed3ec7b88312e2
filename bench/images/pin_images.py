"""Asks the registries about the images of docker/pins.toml and says what differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.images.pin_finding import Change, Finding, State
from bench.images.registry_http import NotAskedError, NotThereError
from bench.images.registry_reference import parse_reference

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Sequence

    from bench.engine.pins import ImagePin
    from bench.images.registry import Found, Registries
    from bench.images.registry_reference import Reference

ASKED: Final = "asked of the registry"
"""What `how` says of a digest that a registry confirmed."""

PLATFORM: Final = "linux/amd64"

_BUILD_COMMIT: Final = "VLLM_BUILD_COMMIT"
"""Environment variable in which vLLM's images say what they were built from."""

_LABELS: Final = "org.opencontainers.image."
_SHOWN_LABELS: Final = ("version", "revision", "source", "created", "title")


def check_image(name: str, pin: ImagePin, registries: Registries, *, today: dt.date, recipes: Sequence[str]) -> Finding:
    """What the registry says about one pinned image.

    Args:
        name: its key in docker/pins.toml.
        pin: what is pinned.
        registries: to ask.
        today: the date to write beside what is found.
        recipes: the targets that run on it.

    Raises:
        UsageError: its reference is none.
    """
    reference = parse_reference(pin.reference)
    try:
        found = registries.resolve(reference)
        gone = _fault(found)
        moved = "" if gone or found.index == pin.index else _moved(reference, pin, registries)
    except NotAskedError as error:
        stays = (f"stays as pinned on {pin.resolved}, {pin.how}",)
        return _finding(name, pin, State.NOT_CHECKED, recipes, why=error.message, remedy=error.remedy, seen=stays)
    except NotThereError as error:
        return _finding(name, pin, State.CONTRADICTED, recipes, why=error.message, remedy=error.remedy)
    if gone:
        remedy = "Name another tag in docker/pins.toml."
        return _finding(name, pin, State.CONTRADICTED, recipes, why=gone, remedy=remedy, seen=_seen(found))
    differs = _differences(pin, found)
    return _finding(
        name,
        pin,
        State.CHANGED if differs else State.CONFIRMED,
        recipes,
        changes=(*differs, *_changes(resolved=(str(pin.resolved), str(today)), how=(pin.how, ASKED))),
        why=moved,
        seen=_seen(found),
    )


def _differences(pin: ImagePin, found: Found) -> tuple[Change, ...]:
    commit = found.env.get(_BUILD_COMMIT) or pin.build_commit
    return _changes(
        index=(pin.index, found.index),
        linux_amd64=(pin.linux_amd64, found.linux_amd64),
        build_commit=(pin.build_commit, commit),
    )


def _changes(**values: tuple[str | None, str | None]) -> tuple[Change, ...]:
    return tuple(Change(key.replace("_", "-"), old, new) for key, (old, new) in values.items() if old != new)


def _finding(  # noqa: PLR0913  the fields of a finding
    name: str,
    pin: ImagePin,
    state: State,
    recipes: Sequence[str],
    *,
    why: str,
    remedy: str = "",
    changes: tuple[Change, ...] = (),
    seen: tuple[str, ...] = (),
) -> Finding:
    return Finding(
        name=name,
        what=pin.reference,
        state=state,
        changes=changes,
        why=why,
        remedy=remedy,
        recipes=tuple(recipes),
        seen=seen,
    )


def _moved(reference: Reference, pin: ImagePin, registries: Registries) -> str:
    """What it means that the tag names something else than what is pinned."""
    note = "" if pin.how == ASKED else f"; the pinned digest was {pin.how.partition(':')[0]}"
    try:
        there = registries.has(reference, pin.index)
    except NotAskedError:  # that it moved is known; whether the old one is still there is not
        return f"the tag {reference.tag} moved: it names another image now{note}"
    if there:
        return f"the tag {reference.tag} moved: it names another image now, the pinned one is still there{note}"
    return f"the tag {reference.tag} names another image, and the registry has none of the pinned digest{note}"


def _fault(found: Found) -> str:
    """Why nothing can be run of what was found; "" where it can."""
    if found.linux_amd64 is None:
        return f"the index has no image for {PLATFORM}"
    if found.platform != PLATFORM:
        return f"what the index calls {PLATFORM} is an image for {found.platform}"
    return ""


def _seen(found: Found) -> tuple[str, ...]:
    """What the image says about itself."""
    labels = found.labels
    shown = [f"{name} {labels[_LABELS + name]}" for name in _SHOWN_LABELS if labels.get(_LABELS + name)]
    commit = [f"{_BUILD_COMMIT} {found.env[_BUILD_COMMIT]}"] if _BUILD_COMMIT in found.env else []
    return (*([found.platform] if found.config else ()), *commit, *shown)
