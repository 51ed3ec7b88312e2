"""The volume that a container keeps compiled code in, and whether it holds any before the container is started."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from docker.errors import NotFound

from bench.engine.caches import MadeWith, cache_environment, from_volume_labels, volume_labels, volume_name
from bench.engine.compile_cache import compile_caches
from bench.engine.docker_errors import DOCKER_ERRORS, explained
from bench.errors import StreamproofError
from bench.images.layout import CACHES

if TYPE_CHECKING:
    import docker
    from docker.models.containers import Container

_ENOUGH: Final = 1 << 16
"""Bytes of a folder's archive that are read: entries have headers of 512 bytes each, and two of them decide."""


def open_volume(client: docker.DockerClient, here: MadeWith) -> str:
    """Name of the volume that an engine shall keep its caches in: made if there is none.

    Args:
        client: of the Docker Engine.
        here: what the engine will run on and with.

    Raises:
        StreamproofError: it cannot be made, or holds something that nobody described.
    """
    name = volume_name(here)
    try:
        volume = client.volumes.create(name, labels=volume_labels(here))  # gives one that is there as it is
    except DOCKER_ERRORS as error:
        raise explained(error, f"make the volume {name}") from error
    found = from_volume_labels(volume.attrs.get("Labels"))
    if found is None or (found.fingerprint, found.key) != (here.fingerprint, here.key):
        raise StreamproofError(
            f"nobody says what the compiled code in the volume {name} was made with, and it would be executed",
            remedy=f"Remove it: docker volume rm {name}",
        )
    return name


def is_cold(container: Container) -> bool:
    """Whether a container that has been made, but not started, finds nothing compiled in its volume.

    A new volume begins as a copy of what was baked into the image, so that such an image starts warm.

    Args:
        container: with the volume mounted at `bench.images.layout.CACHES`.

    Raises:
        docker.errors.APIError: Docker does not let us look.
    """
    return not any(_holds_something(container, folder) for folder in compile_caches(cache_environment(Path(CACHES))))


def _holds_something(container: Container, folder: Path) -> bool:
    """Docker archives a folder of a container that does not run, volumes included: the second entry is in it."""
    try:
        archive, _ = container.get_archive(str(folder))
    except NotFound:
        return False
    return _entries(archive) > 1


def _entries(archive: Iterator[bytes]) -> int:
    """Entries at the beginning of a tar archive."""
    beginning = b""
    for chunk in archive:
        beginning += chunk
        if len(beginning) >= _ENOUGH:
            break
    count = 0
    try:
        with tarfile.open(fileobj=io.BytesIO(beginning), mode="r|") as tar:
            for _ in tar:
                count += 1
    except tarfile.TarError:  # cut off by us
        pass
    return count
