"""Stand-ins for vLLM's published image: the Debian base with the notes that packages leave, and no package."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from contextlib import suppress

import docker
from docker.errors import NotFound

from bench.images.base import Base, parse_base

RIGHT = {
    "vllm": "0.26.0",
    "flashinfer-python": "0.6.14",
    "flashinfer-cubin": "0.6.14",
    "flashinfer-jit-cache": "0.6.14+cu130",
}


def push_stand_in(client: docker.DockerClient, registry: str, base: Base, packages: Mapping[str, str]) -> Base:
    """Makes one that says that it has these packages, pushes it, and names it by digest."""
    container = client.containers.create(base.reference)
    try:
        container.put_archive("/usr/lib/python3/dist-packages", _notes(packages))
        repository = f"{registry}/vllm-openai"
        tag = "-".join(packages.values()).replace("+", "-")[:60]
        container.commit(repository, tag)
    finally:
        container.remove()
    client.images.push(repository, tag)
    image = client.images.get(f"{repository}:{tag}")
    digests: list[str] = image.attrs["RepoDigests"]
    with suppress(NotFound):
        client.images.remove(f"{repository}:{tag}")
    return parse_base(f"{repository}:{tag}@{digests[0].partition('@')[2]}", python=None, glibc=None)


def _notes(packages: Mapping[str, str]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, version in packages.items():
            about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()
            entry = tarfile.TarInfo(f"{name.replace('-', '_')}-{version}.dist-info/METADATA")
            entry.size = len(about)
            tar.addfile(entry, io.BytesIO(about))
    return made.getvalue()
