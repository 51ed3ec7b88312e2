"""The engine and the base image that other tests build on."""

from __future__ import annotations

import docker
import pytest
from docker.errors import NotFound

from bench.engine.docker_host import connect
from bench.images.base import Base


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
