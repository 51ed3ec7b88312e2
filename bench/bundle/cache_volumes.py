"""Caches in Docker's volumes, which no other host can be handed: into a folder, and from a folder into a new volume.

Docker looks into a volume through a container that has it mounted; that is made for it, never started, and removed.
"""

from __future__ import annotations

import io
import tarfile
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Final, cast

from docker.errors import DockerException, NotFound
from docker.types import Mount

from bench.bundle.cache_store import caches_home
from bench.bundle.entries import walk
from bench.bundle.stream import Stream
from bench.engine.caches import (
    LABEL,
    MANIFEST,
    MadeWith,
    from_volume_labels,
    is_cold,
    parse_manifest,
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

_TOP: Final = PurePosixPath(CACHES)

_BAKED: Final = "compiled code that is baked into the image"


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
        copied = Path(scratch) / _TOP.name
        try:
            with _container(client, _any_image(client), [Mount(CACHES, name, type="volume")]) as container:
                pieces, _ = container.get_archive(CACHES)
                with tarfile.open(fileobj=Stream(pieces), mode="r|") as tar:
                    tar.extractall(scratch, filter="data")
        except (DockerException, tarfile.TarError, OSError) as error:
            raise explained(error, f"read the volume {name}") from error
        write_manifest(copied, made_with)
        copied.rename(folder)
    return folder


def prepare_volume(
    client: docker.DockerClient, here: MadeWith, *, image: str, say: Say, root: Path | None = None
) -> str:
    """The volume that an engine shall keep its caches in; a new one begins with the compiled code that fits.

    That is what came in a folder, else what was baked into the image: Docker copies that into an empty volume. Baked
    code that was made with something else is kept out.

    Args:
        client: of the Docker Engine.
        here: what the engine will run on and with.
        image: that the engine runs from.
        say: hears what takes a while, and why a start is a cold one that need not have been.
        root: of all caches in folders; `bench.bundle.cache_store.caches_home` by default.

    Returns:
        Its name.

    Raises:
        StreamproofError: Docker does not take it, or it holds something that nobody described. Nothing of a new volume
            is left then.
    """
    root = caches_home() if root is None else root
    name, folder = volume_name(here), root / here.place
    if _is_there(client, name):
        return open_volume(client, here)
    try:
        if not is_cold(folder):
            say(f"Putting the compiled code of {folder} into the volume {name}")
            _begin_volume(client, here, image, folder)
            return name
        baked = _why_not_baked(client, image, here)
        for line in (*filter(None, [baked]), *unusable(_others(client, root), here)):
            say(line)
        if baked is not None:
            _begin_volume(client, here, image, None)
    except (DockerException, OSError) as error:
        raise explained(error, f"prepare the volume {name}") from error
    return open_volume(client, here)


def _others(client: docker.DockerClient, root: Path) -> list[MadeWith]:
    folders = map(read_manifest, sorted(root.glob("[!.]*/*/")))
    return [*volumes(client).values(), *filter(None, folders)]


def _why_not_baked(client: docker.DockerClient, image: str, here: MadeWith) -> str | None:
    """Why the compiled code in an image must not be executed here; None where there is none, or it may."""
    with _container(client, image, []) as container:
        try:
            pieces, _ = container.get_archive(CACHES)
        except NotFound:
            return None
        with tempfile.TemporaryFile() as packed:
            packed.writelines(pieces)
            packed.seek(0)
            with tarfile.open(fileobj=packed) as tar:
                members = {member.name.partition("/")[2]: member for member in tar if member.isreg()}
                if not members:
                    return None
                raw = tar.extractfile(members[MANIFEST]) if MANIFEST in members else None
                baked = parse_manifest(raw.read() if raw else b"")
    if baked is None:
        return f"{_BAKED} is not used: nobody says what it was made with"
    # The image is another one since it was baked; who baked it vouches for its packages.
    differences = here.differences(baked.model_copy(update={"packages": here.packages}))
    return f"{_BAKED} is not used: it was made with {', '.join(differences)}" if differences else None


def _begin_volume(client: docker.DockerClient, here: MadeWith, image: str, folder: Path | None) -> None:
    """Makes a volume that holds a folder's files, or only its description; never a copy of what the image has there."""
    name = volume_name(here)
    client.volumes.create(name, labels=volume_labels(here))
    try:
        mount = Mount(CACHES, name, type="volume", no_copy=True)
        with _container(client, image, [mount]) as container, tempfile.TemporaryFile() as packed:
            _pack(here, folder, cast("IO[bytes]", packed))
            packed.seek(0)
            # Unpacked above the volume: Docker leaves the owner of the folder that it unpacks into as it is.
            container.put_archive(str(_TOP.parent), cast("bytes", packed))  # it takes files too
    except BaseException:
        with suppress(DockerException):
            client.volumes.get(name).remove()
        raise


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
def _container(client: docker.DockerClient, image: str, mounts: list[Mount]) -> Iterator[Container]:
    """A container that is never started; a later start of an engine removes it if we are killed."""
    container = client.containers.create(
        image, command=["none"], mounts=mounts, labels={OWNER: str(Owner.this())}, network_mode="none"
    )
    try:
        yield container
    finally:
        container.remove(force=True)


def _pack(here: MadeWith, folder: Path | None, sink: IO[bytes]) -> None:
    """What a volume begins with, as the user of our images owns it: an engine writes beside it."""

    def owned(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = USER_ID
        member.uname = member.gname = ""
        return member

    description = volume_labels(here)[LABEL].encode()
    with tarfile.open(fileobj=sink, mode="w") as tar:
        top = tarfile.TarInfo(_TOP.name)
        top.type, top.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(owned(top))
        member = tarfile.TarInfo(f"{_TOP.name}/{MANIFEST}")
        member.size = len(description)
        tar.addfile(owned(member), io.BytesIO(description))
        if folder is not None:
            for _ in walk(folder):  # refuses what is neither a file nor a folder
                pass
            for path in sorted(folder.iterdir()):
                if path.name != MANIFEST:
                    tar.add(path, f"{_TOP.name}/{path.name}", filter=owned)
