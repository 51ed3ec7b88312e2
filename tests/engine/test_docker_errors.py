"""What Docker really answers, and what we make of it."""

from __future__ import annotations

import pytest
from docker.errors import APIError, DockerException
from requests.exceptions import ConnectionError  # noqa: A004  the library's name

from bench.engine.docker_errors import DOCKER_ERRORS, PULL_REFUSALS, explained, pull_explained, refused

# Answers of Docker 20.10 as seen, shortened; those about GPUs are from public reports.
PORT = (
    "driver failed programming external connectivity on endpoint x: Bind for 127.0.0.1:8000 failed: port is already "
    "allocated"
)
FOREIGN_PORT = "Error starting userland proxy: listen tcp4 127.0.0.1:8000: bind: address already in use"
RLIMIT = (
    "runc create failed: error during container init: error setting rlimit type 8: operation not permitted: unknown"
)
NO_PROGRAM = 'exec: "/opt/absent": stat /opt/absent: no such file or directory: unknown'
BIND = 'invalid mount config for type "bind": bind source path does not exist: /checkpoints/x'
NO_DRIVER = 'could not select device driver "" with capabilities: [[gpu]]'
OLD_DRIVER = "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=13.0, please update your driver"
NO_DEVICE = "nvidia-container-cli: device error: GPU-00000000: unknown device: unknown"
UNKNOWN_DIGEST = "manifest for 127.0.0.1:5000/debian@sha256:00 not found: manifest unknown: manifest unknown"
DENIED = "pull access denied for streamproof/nobody, repository does not exist or may require 'docker login': denied: x"
NO_NETWORK = 'Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io: no such host'
DISK = "write /var/lib/docker/tmp/GetImageBlob1: no space left on device"


@pytest.mark.parametrize(
    ("words", "message", "remedy"),
    [
        (PORT, "the port is taken", "Run the command again"),
        (FOREIGN_PORT, "the port is taken", "ss -ltnp"),
        (RLIMIT, "may not raise the limits", "LimitMEMLOCK=infinity"),
        (NO_PROGRAM, "the image has no such program", "just build TARGET"),
        (BIND, "does not see this file system", "on the host itself"),
        (NO_DRIVER, "cannot give GPUs to containers", "nvidia-ctk runtime configure"),
        (OLD_DRIVER, "requirement error", "Update the host's driver"),
        (NO_DEVICE, "the GPU cannot be given", "nvidia-smi"),
        (DISK, "its disk is full", "docker system df"),
        ("something new", "Docker cannot do it: something new", "journalctl -u docker"),
    ],
)
def test_a_container_that_docker_refuses(words: str, message: str, remedy: str) -> None:
    error = refused(words, "do it")
    assert message in error.message
    assert remedy in error.remedy


@pytest.mark.parametrize(
    ("words", "message", "remedy"),
    [
        (UNKNOWN_DIGEST, "the registry has no image with that digest", "not an image's id"),
        (DENIED, "does not give it to this user", "docker login"),
        (NO_NETWORK, "the registry cannot be reached", "docker save"),
        (DISK, "its disk is full", "Docker Root Dir"),
    ],
)
def test_an_image_that_cannot_be_pulled(words: str, message: str, remedy: str) -> None:
    error = pull_explained(DockerException(words), "x@sha256:00")
    assert error.message.startswith("Docker cannot pull x@sha256:00: ")
    assert message in error.message
    assert words in error.message
    assert remedy in error.remedy


def test_a_containers_error_is_no_registrys() -> None:
    words = "dial unix /run/containerd/containerd.sock: connect: connection refused"
    assert "registry" not in refused(words, "start it").message
    assert "registry" in refused(words.replace("dial unix", "dial tcp"), "pull it", PULL_REFUSALS).message


def test_the_daemons_own_words_are_taken_and_not_the_sdks() -> None:
    error = explained(APIError("500 Server Error for url", explanation="no space\nleft on device"), "do it")
    assert error.message == "Docker cannot do it: its disk is full (no space left on device)"
    assert explained(DockerException(), "do it").message == "Docker cannot do it: DockerException"


def test_a_daemon_that_went_away_is_no_missing_program() -> None:
    # As the SDK raises it, which cannot be had without a socket that it forgets to close.
    gone = ConnectionError("('Connection aborted.', FileNotFoundError(2, 'No such file or directory'))")
    assert isinstance(gone, DOCKER_ERRORS)
    assert not isinstance(gone, DockerException)
    error = explained(gone, "make it")
    assert error.message.startswith("Docker cannot make it: the Docker Engine no longer answers (")
    assert "systemctl start docker" in error.remedy
