"""The files of a container image, for a host that can pull nothing.

Docker's own export differs between its versions (a folder a layer, links, an OCI layout), in what it writes beside the
layers, and in times. What a bundle carries is the part that all of them load: configuration and layers, each under its
own digest, so that a layer that is there twice travels once, and a `manifest.json` that names them.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any, Final, cast

from docker.errors import DockerException

from bench.bundle.entries import Entry
from bench.bundle.host.layout import IMAGE
from bench.bundle.host.manifest import Image
from bench.bundle.stream import Stream
from bench.errors import StreamproofError
from bench.report.folder_files import canonical_json

if TYPE_CHECKING:
    import docker

_MANIFEST: Final = "manifest.json"
_PIECE: Final = 1 << 20


@dataclass(frozen=True)
class ImageSource:
    """An image that Docker has.

    Attributes:
        client: of the Docker Engine.
        reference: its name with a tag.
        digest: what pins it in a fingerprint: the hash of its definition, or its id where it is not the target's own.
        own: it is the target's own image, which the run on the host finds by its definition; otherwise it is named.
    """

    client: docker.DockerClient
    reference: str
    digest: str
    own: bool


@dataclass(frozen=True)
class SavedImage:
    """An image's files.

    Attributes:
        image: what the bundle's manifest says about it.
        entries: its files.
    """

    image: Image
    entries: list[Entry]


def save_image(source: ImageSource, folder: Path) -> SavedImage:
    """Takes an image out of Docker, and checks that every piece is what its digest says.

    Args:
        source: the image.
        folder: to put its files into; made.

    Raises:
        StreamproofError: Docker cannot export it, or what it exports is damaged.
    """
    reference = source.reference
    folder.mkdir(parents=True)
    try:
        with tarfile.open(fileobj=Stream(source.client.api.get_image(reference)), mode="r|", bufsize=_PIECE) as tar:
            digests = _take(tar, folder)
    except (DockerException, tarfile.TarError, OSError) as error:
        raise StreamproofError(
            f"Docker could not export the image {reference}: {error}",
            remedy="See that there is room for it, uncompressed, where the bundle is made (--out).",
        ) from error
    listed = json.loads((folder / digests[_MANIFEST]).read_bytes())[0] if _MANIFEST in digests else {}
    return _saved(reference, folder, listed, digests)


def _saved(reference: str, folder: Path, listed: dict[str, Any], digests: dict[str, str]) -> SavedImage:
    try:
        config = digests[listed["Config"]]
        layers = [digests[layer] for layer in listed["Layers"]]
        wanted = json.loads((folder / config).read_bytes())["rootfs"]["diff_ids"]
        named = list(zip(listed["Layers"], layers, wanted, strict=True))
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(reference) from error
    for name, layer, diff_id in named:
        # An uncompressed layer has the digest that the configuration gives; a compressed one has that of its name.
        if f"sha256:{layer}" != diff_id and layer != PurePosixPath(name).name:
            raise _damaged(reference)
    names = {digest: f"blobs/sha256/{digest}" for digest in (config, *layers)}
    manifest = [{"Config": names[config], "RepoTags": [reference], "Layers": [names[layer] for layer in layers]}]
    entries = [Entry(f"{IMAGE}/{_MANIFEST}", canonical_json(manifest))]
    entries += [Entry(f"{IMAGE}/{name}", folder / digest) for digest, name in names.items()]
    return SavedImage(Image(reference, f"sha256:{config}", tuple(wanted)), entries)


def _take(tar: tarfile.TarFile, folder: Path) -> dict[str, str]:
    """Writes every file of an export under its own SHA-256. Returns the digests by the names in the export."""
    digests: dict[str, str] = {}
    links: dict[str, str] = {}
    for member in tar:
        if member.issym():
            links[member.name] = _normal(f"{member.name}/../{member.linkname}")
        elif member.isreg():
            digests[member.name] = _write(cast("IO[bytes]", tar.extractfile(member)), folder)
    return digests | {name: digests[target] for name, target in links.items() if target in digests}


def _write(source: IO[bytes], folder: Path) -> str:
    digest = hashlib.sha256()
    scratch = folder / "scratch"
    with scratch.open("wb") as file:
        while piece := source.read(_PIECE):
            digest.update(piece)
            file.write(piece)
    scratch.rename(folder / digest.hexdigest())
    return digest.hexdigest()


def _normal(path: str) -> str:
    """A path without "..", as names in a tar file are."""
    steps: list[str] = []
    for step in path.split("/"):
        if step == "..":
            steps = steps[:-1]
        elif step not in ("", "."):
            steps.append(step)
    return "/".join(steps)


def _damaged(reference: str) -> StreamproofError:
    return StreamproofError(
        f"what Docker exported of the image {reference} is not what its digests say",
        remedy="Its storage is damaged, or it writes a form that this version does not know (docker version).",
    )
