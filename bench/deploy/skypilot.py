"""A task for SkyPilot: a machine with the recipe's cards, the checkout on it, the run in the engine's own base image.

The engine runs as a process: SkyPilot's container has no Docker in it. The image gives CUDA's compiler and libraries.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.deploy.asked import plain_path
from bench.deploy.gpus import skypilot_accelerators
from bench.deploy.images import engine_image
from bench.deploy.names import Names
from bench.deploy.templates import render
from bench.engine.pins import REPOSITORY
from bench.errors import UsageError

if TYPE_CHECKING:
    from bench.deploy.asked import Asked

DISK_GB: Final = 256
"""Image, engine environment, weights and what is compiled; SkyPilot's own default, said aloud."""

_CARRIED: Final = frozenset({"quantized", "bundled", "folder"})


def task(asked: Asked, image: str | None) -> str:
    """The task.

    Args:
        asked: the recipe.
        image: "REFERENCE@sha256:..." instead of the one that the recipe names.

    Raises:
        UsageError: it cannot run there as the recipe says.
    """
    recipe = asked.recipe
    checkpoint = recipe.checkpoint
    carried = checkpoint.kind in _CARRIED
    return render(
        "skypilot.yaml.j2",
        title=recipe.title,
        target=recipe.target,
        version=version("streamproof"),
        name=Names.of(recipe.target).engine,
        accelerators=skypilot_accelerators(recipe.hardware),
        image=f"docker:{engine_image(recipe, image)}",
        disk_gb=DISK_GB,
        hub=checkpoint.kind == "hub",
        checkpoint=plain_path(checkpoint.name, what="the checkpoint") if carried else "",
        words=asked.repro(_target(asked.target), "--engine", "process"),
    )


def _target(target: str, repository: Path = REPOSITORY) -> str:
    """What the recipe is called in the checkout that is brought to the machine.

    Raises:
        UsageError: it is a file outside the checkout.
    """
    if not target.endswith(".toml"):
        return target
    try:
        return Path(target).resolve().relative_to(repository).as_posix()
    except ValueError:
        raise UsageError(
            f"{target} lies outside the checkout, which is what SkyPilot brings to the machine.",
            remedy=f"Copy it into {repository}.",
        ) from None
