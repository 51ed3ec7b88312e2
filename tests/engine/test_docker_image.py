"""Images that may run, and those that are refused before anything is started."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import docker
import pytest
from docker.errors import ImageNotFound
from docker.models.images import Image

from bench.engine.docker_image import EngineImage, given_image, local_image
from bench.errors import StreamproofError, UsageError
from bench.images.base import Base
from bench.images.labels import BASE_DIGEST, DEFINITION, STAGE

OURS = {DEFINITION: "ab" * 32, STAGE: "serve-cuda", BASE_DIGEST: "sha256:" + "cd" * 32}


def image(architecture: str = "amd64", **config: Any) -> Image:
    settings = {
        "User": "10001:10001",
        "Entrypoint": ["python3", "-m", "server"],
        "Env": ["CUDA_VERSION=13.0.2", "EMPTY=", "WITH=a=b"],
        "Labels": OURS,
    }
    attrs = {"Id": "sha256:11", "Architecture": architecture, "RepoDigests": None, "Config": {**settings, **config}}
    return Image(attrs=attrs)


def test_what_docker_says_of_one_of_ours() -> None:
    found = EngineImage.of(image(), "mine")
    assert (found.id, found.name, found.repo_digests) == ("sha256:11", "mine", ())
    assert found.env == {"CUDA_VERSION": "13.0.2", "EMPTY": "", "WITH": "a=b"}
    assert (found.stage, found.base_digest) == ("serve-cuda", OURS[BASE_DIGEST])
    assert found.entrypoint == ("python3", "-m", "server")


def test_a_report_tells_the_labels_that_mean_something() -> None:
    found = EngineImage.of(image(Labels={**OURS, "maintainer": "somebody", "io.streamproof.x": "y" * 10_000}), "mine")
    assert found.told_labels == {**OURS, "io.streamproof.x": "y" * 500}


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"Labels": None}, f"it has no label {DEFINITION}"),
        ({"Labels": {**OURS, STAGE: "bench"}}, "it was made as bench, not to serve"),
        ({"User": ""}, "it runs as root"),
        ({"User": "0:0"}, "only a user's number above 0 is sure"),
        ({"User": "nobody"}, "only a user's number above 0 is sure"),
        ({"Entrypoint": None}, "no entrypoint"),
    ],
)
def test_an_image_that_is_not_ours(config: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError) as caught:
        EngineImage.of(image(**config), "theirs")
    assert caught.value.message.startswith("the image theirs is no engine of ours: ")
    assert why in caught.value.message
    assert "just build TARGET" in caught.value.remedy


def test_an_image_for_another_architecture() -> None:
    with pytest.raises(StreamproofError, match="the image mine is for arm64; this host runs amd64"):
        EngineImage.of(image("arm64"), "mine")


def nothing_said(line: str) -> None:
    raise AssertionError(line)


def test_an_image_that_is_here_is_taken_by_id_and_by_name(
    docker_client: docker.DockerClient, standin_image: str
) -> None:
    found = given_image(docker_client, standin_image, say=nothing_said)
    assert found.id == standin_image
    assert found.user == "10001:10001"
    docker_client.images.get(standin_image).tag("streamproof/test", "here")
    try:
        assert given_image(docker_client, "streamproof/test:here", say=nothing_said).id == standin_image
        assert local_image(docker_client, "streamproof/test:here").id == standin_image
    finally:
        docker_client.images.remove("streamproof/test:here")


def test_a_tag_that_is_not_here_is_not_pulled(docker_client: docker.DockerClient, registry: str) -> None:
    with pytest.raises(UsageError) as caught:
        given_image(docker_client, f"{registry}/debian:base-of-tomorrow", say=nothing_said)
    assert "REPOSITORY@sha256:..." in caught.value.remedy
    with pytest.raises(StreamproofError, match="there is no image streamproof/absent:1 on this host"):
        local_image(docker_client, "streamproof/absent:1")


def test_a_digest_that_the_registry_does_not_have(docker_client: docker.DockerClient, registry: str) -> None:
    reference = f"{registry}/debian@sha256:{'0' * 64}"
    with pytest.raises(StreamproofError) as caught:
        given_image(docker_client, reference, say=lambda _: None)
    assert caught.value.message.startswith(f"Docker cannot pull {reference}: the registry has no image")


def test_a_registry_that_does_not_answer(docker_client: docker.DockerClient) -> None:
    with pytest.raises(StreamproofError) as caught:
        given_image(docker_client, f"127.0.0.1:9/debian@sha256:{'0' * 64}", say=lambda _: None)
    assert "the registry cannot be reached" in caught.value.message


def test_somebody_elses_image_is_refused_at_once(docker_client: docker.DockerClient, debian_base: Base) -> None:
    with pytest.raises(UsageError, match=f"it has no label {DEFINITION}"):
        given_image(docker_client, debian_base.reference, say=lambda _: None)


@pytest.fixture
def pushed(docker_client: docker.DockerClient, registry: str, standin_image: str) -> Iterator[str]:
    """The stand-in in a registry, and no longer here by that name."""
    repository = f"{registry}/streamproof/standin"
    docker_client.images.get(standin_image).tag(repository, "pushed")
    for step in docker_client.api.push(repository, "pushed", stream=True, decode=True):
        assert "error" not in step, step
    image = docker_client.images.get(standin_image)
    (reference,) = [digest for digest in image.attrs["RepoDigests"] if digest.startswith(repository)]
    docker_client.images.remove(f"{repository}:pushed")  # the last name of it in that repository
    with pytest.raises(ImageNotFound):
        docker_client.images.get(reference)
    yield reference
    docker_client.images.remove(reference)


def test_an_image_is_pulled_by_its_digest(docker_client: docker.DockerClient, pushed: str, standin_image: str) -> None:
    said: list[str] = []
    found = given_image(docker_client, pushed, say=said.append)
    assert found.id == standin_image
    assert pushed in found.repo_digests
    assert said[0] == f"Pulling {pushed}"
