"""Caches in Docker's volumes, which no other host can be handed: into a folder, and from a folder into a new volume.

Docker looks into a volume through a container that has it mounted; that is made for it, never started, and removed.
"""

from __future__ import annotations

import tarfile
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from docker.errors import DockerException, NotFound

from bench.bundle.cache_store import caches_home
from bench.bundle.entries import walk
from bench.bundle.stream import Stream
from bench.engine.caches import (
    LABEL,
    MadeWith,
    from_volume_labels,
    is_cold,
    read_manifest,
    unusable,
    volume_labels,
    volume_name,
    write_manifest,
)
from bench.engine.docker_caches import open_volume
from bench.engine.docker_errors import explained
from bench.engine.docker_owner import LABEL as OWNER
from bench.engine.docker_owner import Owner
from bench.errors import StreamproofError
from bench.images.layout import CACHES, USER_ID

if TYPE_CHECKING:
    from collections.abc import Iterator

    import docker
    from docker.models.containers import Container

    from bench.engine.install import Say


def volumes(client: docker.DockerClient) -> dict[str, MadeWith]:
    """Names of the volumes with caches, and what these were made with.

    Raises:
        StreamproofError: Docker does not say.
    """
    try:
        found = client.volumes.list(filters={"label": LABEL})
    except DockerException as error:
        raise explained(error, "list the volumes with caches") from error
    described = {str(volume.name): from_volume_labels(volume.attrs.get("Labels")) for volume in found}
    return {name: made_with for name, made_with in sorted(described.items()) if made_with is not None}


def copy_volume(client: docker.DockerClient, made_with: MadeWith, root: Path) -> Path:
    """Copies the caches of a volume to where a folder of all caches has them.

    Args:
        client: of the Docker Engine.
        made_with: what they were made with; it names the volume.
        root: of all caches.

    Returns:
        The folder of these caches.

    Raises:
        StreamproofError: the volume cannot be read, no image is here to look through, or the folder is there already.
    """
    folder, name = root / made_with.place, volume_name(made_with)
    if not _is_there(client, name):  # Docker would make one
        raise StreamproofError(f"Docker has no volume {name}", remedy="`just caches` lists those that are there.")
    if folder.exists():
        raise StreamproofError(f"{folder} is there already", remedy="Remove it first (just caches prune).")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".volume.", dir=root) as scratch:
        copied = Path(scratch) / Path(CACHES).name
        try:
            with _container(client, name, _any_image(client)) as container:
                pieces, _ = container.get_archive(CACHES)
                with tarfile.open(fileobj=Stream(pieces), mode="r|") as tar:
                    tar.extractall(scratch, filter="data")
        except (DockerException, tarfile.TarError, OSError) as error:
            raise explained(error, f"read the volume {name}") from error
        write_manifest(copied, made_with)
        copied.rename(folder)
    return folder


def fill_volume(client: docker.DockerClient, here: MadeWith, *, root: Path, image: str, say: Say) -> bool:
    """Gives an engine the caches that came in a folder: puts them into its volume, if there is none yet.

    Args:
        client: of the Docker Engine.
        here: what the engine will run on and with; only caches that were made with the same are used.
        root: of all caches in folders.
        image: that the engine runs from.
        say: hears of it, since it can take a while.

    Returns:
        Whether there was something to put there.

    Raises:
        StreamproofError: Docker does not take it. Nothing of the volume is left then.
    """
    folder, name = root / here.place, volume_name(here)
    if is_cold(folder) or _is_there(client, name):
        return False
    say(f"Putting the compiled code of {folder} into the volume {name}")
    try:
        client.volumes.create(name, labels=volume_labels(here))
        try:
            with _container(client, name, image) as container, tempfile.TemporaryFile() as packed:
                _pack(folder, cast("IO[bytes]", packed))
                packed.seek(0)
                container.put_archive(CACHES, cast("bytes", packed))  # it takes files too
        except BaseException:
            with suppress(DockerException):
                client.volumes.get(name).remove()
            raise
    except (DockerException, OSError) as error:
        raise explained(error, f"fill the volume {name}") from error
    return True


def prepare_volume(
    client: docker.DockerClient, here: MadeWith, *, image: str, say: Say, root: Path | None = None
) -> str:
    """The volume that an engine shall keep its caches in, with the compiled code that came in a folder.

    Args:
        client: of the Docker Engine.
        here: what the engine will run on and with.
        image: that the engine runs from.
        say: hears what takes a while, and why a start is a cold one that need not have been.
        root: of all caches in folders; `bench.bundle.cache_store.caches_home` by default.

    Returns:
        Its name.

    Raises:
        StreamproofError: Docker does not take it, or it holds something that nobody described.
    """
    root = caches_home() if root is None else root
    others = [*volumes(client).values(), *filter(None, map(read_manifest, sorted(root.glob("[!.]*/*/"))))]
    if not fill_volume(client, here, root=root, image=image, say=say) and not _is_there(client, volume_name(here)):
        for line in unusable(others, here):
            say(line)
    return open_volume(client, here)


def _is_there(client: docker.DockerClient, name: str) -> bool:
    try:
        client.volumes.get(name)
    except NotFound:
        return False
    except DockerException as error:
        raise explained(error, f"look at the volume {name}") from error
    return True


def _any_image(client: docker.DockerClient) -> str:
    """One to look through: none of it is run."""
    images = client.images.list()
    if not images:
        raise StreamproofError(
            "Docker has no image here, and a volume can only be looked into through a container",
            remedy="Have the target's image here first: just build TARGET",
        )
    return str(images[0].id)


@contextmanager
def _container(client: docker.DockerClient, volume: str, image: str) -> Iterator[Container]:
    """A container that has the volume and is never started; a later start removes it if we are killed."""
    container = client.containers.create(
        image,
        command=["none"],
        volumes={volume: {"bind": CACHES, "mode": "rw"}},
        labels={OWNER: str(Owner.this())},
        network_mode="none",
    )
    try:
        yield container
    finally:
        container.remove(force=True)


def _pack(folder: Path, sink: IO[bytes]) -> None:
    """The folder as the user of our images owns it."""

    def owned(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = USER_ID
        member.uname = member.gname = ""
        return member

    for _ in walk(folder):  # refuses what is neither a file nor a folder
        pass
    with tarfile.open(fileobj=sink, mode="w") as tar:
        for path in sorted(folder.iterdir()):
            tar.add(path, path.name, filter=owned)
