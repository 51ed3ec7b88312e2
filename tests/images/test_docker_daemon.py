"""The engine and the base image that other tests build on."""

from __future__ import annotations

import fcntl
from pathlib import Path

import docker
import pytest
from docker.errors import NotFound

from bench.engine.docker_host import connect
from bench.images.base import Base
from tests.images import private_docker


def test_a_container_runs_and_answers_on_loopback(docker_client: docker.DockerClient, debian_base: Base) -> None:
    image = docker_client.images.pull(debian_base.reference)
    assert debian_base.digest in str(image.attrs["RepoDigests"])
    said = docker_client.containers.run(debian_base.reference, ["python3", "--version"], remove=True, network="none")
    assert said.startswith(f"Python {debian_base.python}.".encode())


def test_nothing_of_this_host_is_in_the_base(docker_client: docker.DockerClient, debian_base: Base) -> None:
    files = ["/etc/hostname", "/etc/hosts", "/etc/resolv.conf", "/etc/machine-id"]
    container = docker_client.containers.create(debian_base.reference)
    try:
        for file in files:
            _, described = container.get_archive(file)
            assert described is not None
            assert described["size"] == 0, file
    finally:
        container.remove()


@pytest.mark.usefixtures("docker_host")
def test_the_product_finds_it(docker_client: docker.DockerClient) -> None:
    client = connect()
    assert client.info()["ID"] == docker_client.info()["ID"]
    client.close()


def test_there_is_nothing_but_what_tests_put_there(docker_client: docker.DockerClient, registry: str) -> None:
    with pytest.raises(NotFound):
        docker_client.images.pull(f"{registry}/nobody:pushed-this")


def test_what_killed_tests_left_is_swept_and_what_others_use_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_docker, "PARENT", tmp_path)
    left, used, strange = (tmp_path / f"{private_docker.PREFIX}{name}" for name in ("left", "used", "strange"))
    for folder in (left, used, strange):
        (folder / "data").mkdir(parents=True)
    (left / "lock").touch()
    with (used / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        private_docker._sweep()
    assert [folder.exists() for folder in (left, used, strange)] == [False, True, True]
