"""A real Docker Engine for tests: the one that can be reached, else one that the tests start themselves.

Where neither is possible the tests skip and say why; in CI (`CI=true`) that is a failure. In CI, as root and with
apt-get, Debian's packages are installed first.

- `docker_address`: of the engine, as `DOCKER_HOST` takes it; `docker_client`: a client of it.
- `docker_host`: points `DOCKER_HOST` to it while a test runs.
- `registry`: "127.0.0.1:PORT" of a registry that is empty at first.
- `debian_base`: a base image in that registry, by digest, which stands in for the pinned ones.
- `checkout`: a copy of this repository as it lies there, committed: others may edit this one meanwhile.
- `bench_image` (of that copy), `serve_cpu_image`: images of ours, built on it. The second takes minutes and 6.7 GB:
  whoever asks for it is marked `engine`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import docker
import pytest

from bench.engine.docker_host import DockerUnavailableError, connect
from bench.engine.docker_host import docker_address as reachable_address
from bench.engine.environment import cache_root
from bench.engine.pins import REPOSITORY
from bench.images.base import Base, parse_base
from bench.images.build import BuiltImage, ensure_image
from bench.images.revision import tracked_files
from tests.debian_packages import NotInstalledError, find_program
from tests.images.debian_base import GLIBC, PYTHON, SETTINGS, debian_tar
from tests.images.private_docker import CannotStartError, loopback_registry, private_docker

PACKAGES = {
    "dockerd": "docker.io",
    "debootstrap": "debootstrap",
    "docker-registry": "docker-registry",
    "ip": "iproute2",
}
"""Program to Debian package."""

SECRETS = ("hf_" + "aBcDeFgHiJ" * 3 + "0123", "http://somebody:proxy-password@127.0.0.1:1")
"""What the user's token and proxies are while images are built."""


def _unavailable(reason: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(f"in CI there must be a Docker Engine: {reason}")
    pytest.skip(reason)


def _program(name: str) -> str:
    """Its path; installed first in CI."""
    missing = (package for program, package in PACKAGES.items() if shutil.which(program) is None)
    try:
        found = find_program(name, missing)
    except NotInstalledError as error:
        _unavailable(str(error))
    return found or _unavailable(f"{name} is not installed (Debian: apt-get install {PACKAGES[name]})")


@dataclass(frozen=True)
class _Engine:
    """Where it is, a client of it, and whether it is the tests' own."""

    address: str
    client: docker.DockerClient
    own: bool


@pytest.fixture(scope="session")
def _docker() -> Iterator[_Engine]:
    try:
        client = connect()
    except DockerUnavailableError as error:
        reason = error.message
    else:
        try:
            yield _Engine(reachable_address(os.environ), client, own=False)
        finally:
            client.close()
        return
    if os.geteuid() != 0:
        _unavailable(f"{reason}; only root can start an engine")
    for name in ("dockerd", "ip"):
        _program(name)
    try:
        with private_docker() as (address, client):
            yield _Engine(address, client, own=True)
    except CannotStartError as error:
        _unavailable(f"{reason}; a private one does not start: {error}")


@pytest.fixture(scope="session")
def docker_client(_docker: _Engine) -> docker.DockerClient:
    return _docker.client


@pytest.fixture(scope="session")
def docker_address(_docker: _Engine) -> str:
    return _docker.address


@pytest.fixture
def docker_host(docker_address: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("DOCKER_HOST", docker_address)
    return docker_address


@pytest.fixture(scope="session")
def registry() -> Iterator[str]:
    with loopback_registry(_program("docker-registry")) as address:
        yield address


@pytest.fixture(scope="session")
def debian_base(docker_client: docker.DockerClient, registry: str) -> Iterator[Base]:
    if os.geteuid() != 0:
        _unavailable("only root can make a base image with debootstrap")
    _program("debootstrap")
    repository = f"{registry}/debian"
    tar = debian_tar(cache_root() / "test-bases")
    docker_client.api.import_image_from_file(str(tar), repository, "base", changes=SETTINGS)
    image = docker_client.images.get(f"{repository}:base")
    try:
        for event in docker_client.api.push(repository, "base", stream=True, decode=True):
            assert "error" not in event, event
        image.reload()
        digests: list[Any] = image.attrs["RepoDigests"]
        name, _, digest = digests[0].partition("@")
        yield parse_base(f"{name}:base@{digest}", python=PYTHON, glibc=GLIBC)
    finally:
        docker_client.images.remove(str(image.id), force=True)


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkout")
    for name in tracked_files(["."], REPOSITORY):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(REPOSITORY / name, target)
    who = ["-c", "user.name=tests", "-c", "user.email=tests@localhost"]
    for arguments in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "as it is"]):
        subprocess.run(["git", "-C", str(folder), *arguments], check=True)
    return folder


@pytest.fixture(scope="session")
def bench_image(_docker: _Engine, debian_base: Base, checkout: Path) -> Iterator[BuiltImage]:
    with _built("bench", _docker, debian_base, checkout) as image:
        yield image


@pytest.fixture(scope="session")
def serve_cpu_image(_docker: _Engine, debian_base: Base) -> Iterator[BuiltImage]:
    with _built("cpu", _docker, debian_base, REPOSITORY) as image:
        yield image


@contextmanager
def _built(target: str, engine: _Engine, base: Base, repository: Path) -> Iterator[BuiltImage]:
    """An image, built while the environment and Docker's settings are full of `SECRETS`."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as settings:
        patch.setenv("DOCKER_HOST", engine.address)
        patch.setenv("HF_TOKEN", SECRETS[0])
        patch.setenv("DOCKER_CONFIG", settings)
        proxies = {"default": {"httpProxy": SECRETS[1], "httpsProxy": SECRETS[1]}}
        (Path(settings) / "config.json").write_text(json.dumps({"proxies": proxies}))
        image = ensure_image(target, say=print, client=engine.client, base=base, repository=repository)
    if engine.own:  # the context, 3 GB of wheels, is in the builder's cache too
        engine.client.api.prune_builds()
    try:
        yield image
    finally:
        if not (engine.own or image.cached):  # our own engine goes as a whole
            engine.client.images.remove(image.id, force=True)
