"""Images of ours: found by their definition, or built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import docker

    from bench.engine.install import Say
    from bench.images.base import Base


@dataclass(frozen=True, kw_only=True)
class BuiltImage:
    """An image that is there.

    Attributes:
        id: "sha256:...", the digest of its configuration.
        reference: its tag, "streamproof/cpu:0123456789ab".
        target: name in docker/pins.toml.
        definition_sha256: of what it was built from.
        labels: as it carries them: OCI's (`org.opencontainers.image.*`) and `io.streamproof.*`.
        base_digest: of the image that it was built on.
        repo_digests: "registry/repository@sha256:..." where it was pushed or pulled; empty otherwise.
        layers: digests of its uncompressed layers, lowest first.
        size: bytes.
        cached: it was there already; nothing was built.
    """

    id: str
    reference: str
    target: str
    definition_sha256: str
    labels: Mapping[str, str]
    base_digest: str
    repo_digests: tuple[str, ...]
    layers: tuple[str, ...]
    size: int
    cached: bool


def ensure_image(  # noqa: PLR0913  the options of a build
    target: str,
    *,
    say: Say,
    client: docker.DockerClient | None = None,
    base: Base | None = None,
    caches: Path | None = None,
    terminal: bool = False,
) -> BuiltImage:
    """The image of a target as it is defined now; it is built if it is not there.

    Args:
        target: name in docker/pins.toml; of a recipe, `bench.images.definition.image_target` tells it.
        say: takes a line for each step of a build; hears nothing when there is nothing to do.
        client: of the Docker Engine that `DOCKER_HOST` and Docker's context name; None connects to it.
        base: takes the place of the pinned base (`bench.images.base.parse_base`).
        caches: folder of compile caches to bake in.
        terminal: standard error is a terminal that nobody else draws on: Docker may draw its own progress there.

    Raises:
        UsageError: no such target, or a base without digest.
        StreamproofError: no Docker Engine, no BuildKit, too little disk, no network to fetch what is missing, or the
            build failed; its own words say why. Nothing is left behind.
    """
    raise NotImplementedError
