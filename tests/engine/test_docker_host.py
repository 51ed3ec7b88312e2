"""A Docker Engine that will do, and every other one: refused in one message that says what to do."""

from __future__ import annotations

import gc
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from bench.engine.docker_host import DockerUnavailableError, connect, docker_address, require_gpus, require_room, unfit

if TYPE_CHECKING:
    import docker

KERNEL = "6.1.0-17-amd64"
VERSION: dict[str, Any] = {"Components": [{"Name": "Engine"}, {"Name": "containerd"}]}
INFO: dict[str, Any] = {
    "OSType": "linux",
    "Architecture": "x86_64",
    "KernelVersion": KERNEL,
    "SecurityOptions": ["name=seccomp,profile=default"],
    "OperatingSystem": "Debian GNU/Linux 12 (bookworm)",
}


def test_what_will_do() -> None:
    assert unfit(VERSION, INFO, kernel=KERNEL) is None
    assert unfit(VERSION, {**INFO, "Architecture": "amd64", "KernelVersion": "<unknown>"}, kernel=KERNEL) is None
    assert unfit({}, {}, kernel=KERNEL) is None


@pytest.mark.parametrize(
    ("version", "info", "message"),
    [
        ({"Components": [{"Name": "Podman Engine"}]}, {}, "what answers as Docker is Podman Engine"),
        ({}, {"SecurityOptions": ["name=seccomp", "name=rootless"]}, "runs rootless"),
        (
            {},
            {"KernelVersion": "6.6.12-linuxkit", "OperatingSystem": "Docker Desktop"},
            "Docker Desktop, kernel 6.6.12",
        ),
        ({}, {"OSType": "windows"}, "another machine"),
        ({}, {"Architecture": "aarch64"}, "this host's architecture is aarch64; the images are made for linux/amd64"),
    ],
)
def test_what_will_not(version: dict[str, Any], info: dict[str, Any], message: str) -> None:
    refused = unfit({**VERSION, **version}, {**INFO, **info}, kernel=KERNEL)
    assert refused is not None
    assert message in refused.message
    assert refused.remedy


def refusal(monkeypatch: pytest.MonkeyPatch, address: str) -> DockerUnavailableError:
    monkeypatch.setenv("DOCKER_HOST", address)
    with pytest.raises(DockerUnavailableError) as caught:
        connect(otherwise="Or do without.")
    assert caught.value.remedy.endswith("Or do without.")
    return caught.value


@pytest.mark.parametrize("address", ["tcp://10.0.0.1:2375", "ssh://me@host", "tcp://127.0.0.1:2375", "nonsense"])
def test_another_machine_is_not_even_asked(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    assert address in refusal(monkeypatch, address).message


def test_no_daemon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, **_: f"/usr/bin/{name}")
    stopped = refusal(monkeypatch, f"unix://{tmp_path}/absent")
    assert stopped.message == f"Docker is not running: {tmp_path}/absent: No such file or directory"
    assert "systemctl start docker" in stopped.remedy
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    missing = refusal(monkeypatch, f"unix://{tmp_path}/absent")
    assert missing.message.startswith("Docker is not installed")
    assert "docs.docker.com" in missing.remedy


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # the SDK leaves the one that did not connect
def test_a_socket_that_nobody_listens_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left_over:
        left_over.bind(str(tmp_path / "socket"))
    assert refusal(monkeypatch, f"unix://{tmp_path}/socket").message == "no Docker Engine answers: Connection refused"
    gc.collect()  # the complaint about it comes now, while it is ignored
    (tmp_path / "file").write_bytes(b"")
    assert "is no socket" in refusal(monkeypatch, f"unix://{tmp_path}/file").message


@pytest.mark.skipif(os.geteuid() != 0, reason="root becomes somebody else")
def test_a_socket_that_is_not_this_users(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    for folder in (tmp_path, *tmp_path.parents):
        if folder.is_relative_to("/tmp/pytest-of-root"):  # noqa: S108  pytest's own
            folder.chmod(0o755)
    code = (
        "import os, sys; from bench.engine.docker_host import connect; os.setgid(65534); os.setuid(65534)\n"
        "try: connect()\nexcept Exception as error: print(error.message); print(error.remedy)"
    )
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        path.chmod(0o660)
        said = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "DOCKER_HOST": f"unix://{path}"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    assert f"this user may not use Docker: {path}: Permission denied" in said
    assert "usermod -aG docker" in said


def test_the_same_engine_as_the_docker_command_takes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert docker_address({"DOCKER_HOST": "unix:///a"}) == "unix:///a"
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    assert docker_address({}) == "unix:///var/run/docker.sock"


class Knows:
    """All that is asked of a client about GPUs: none can exist here."""

    def __init__(self, *runtimes: str) -> None:
        self.runtimes = runtimes

    def info(self) -> dict[str, Any]:
        return {"Runtimes": {name: {} for name in self.runtimes}}

    def client(self) -> docker.DockerClient:
        return cast("docker.DockerClient", self)


def test_gpus_need_nvidias_toolkit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    require_gpus(Knows("runc", "nvidia").client())
    with pytest.raises(DockerUnavailableError) as caught:
        require_gpus(Knows("runc").client(), otherwise="Or do without.")
    assert "nvidia-ctk runtime configure" in caught.value.remedy
    assert caught.value.remedy.endswith("Or do without.")
    monkeypatch.setattr(shutil, "which", lambda name, **_: f"/usr/bin/{name}")
    require_gpus(Knows("runc").client())


def test_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Knows("runc").client()
    free = [2 << 30]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free[0]))
    require_room(client)
    free[0] = 1 << 29
    with pytest.raises(DockerUnavailableError, match=r"0\.5 GiB are free at"):
        require_room(client)


def test_a_real_one(docker_host: str, docker_client: docker.DockerClient) -> None:
    client = connect()
    assert client.version() == docker_client.version()
    client.close()
    assert docker_host.startswith("unix://")
