"""Which image a cluster runs: one that a registry can give, by digest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.engine.pins import load_pins
from bench.errors import UsageError
from bench.images.base import parse_base, pinned_base

if TYPE_CHECKING:
    from recipes.schema import Recipe


def engine_image(recipe: Recipe, given: str | None) -> str:
    """Reference of the engine's image: "vllm/vllm-openai:v0.26.0@sha256:...".

    Images of ours are built where they are needed and are in no registry. Over their base they add a user, folders and
    variables, which a manifest gives as well; so it is the base that a cluster pulls, unless somebody has pushed ours.

    Args:
        recipe: resolved.
        given: "REFERENCE@sha256:..." on the command line; None takes the base that the recipe names.

    Raises:
        UsageError: `given` has no digest, or the recipe names no published image.
    """
    if given is not None:
        return parse_base(given, python=None, glibc=None).reference
    if recipe.engine.image is None:
        raise UsageError(
            f"{recipe.target} names no published image, so there is no digest that a cluster could pull.",
            remedy="Set engine.image to a name of docker/pins.toml (--set engine.image=vllm-openai), or push an image "
            "of your own and name it: --image REGISTRY/NAME@sha256:...",
        )
    return pinned_base(load_pins().image(recipe.engine.image)).reference


def client_image(given: str | None) -> str:
    """Reference of the client's image, which nobody has published.

    Args:
        given: "REFERENCE@sha256:..." on the command line.

    Raises:
        UsageError: none was given, or without a digest.
    """
    if given is None:
        raise UsageError(
            "the client's image is in no registry yet, so it has no digest that a cluster could pull.",
            remedy="Build it (just build bench), push it to a registry that your cluster reaches (docker tag, docker "
            "push: it prints the digest) and name it: --client-image REGISTRY/NAME@sha256:... Or leave the client out: "
            "--engine-only",
        )
    return parse_base(given, python=None, glibc=None).reference
