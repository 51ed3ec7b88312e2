"""The Docker Engine of this host: found, reached, and fit for a measurement, or one clear error that says what to do.

An image can only be measured where client, files and GPUs are: a daemon on another machine, in a virtual machine, or
one that runs without root (every byte then passes through a network stack in user space) is refused, and so is another
program that speaks Docker's protocol, since none of this was tested with it.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import docker
from docker.context import ContextAPI
from docker.errors import DockerException

from bench.errors import StreamproofError

ARCHITECTURE: Final = "amd64"
"""Of every image in docker/pins.toml, as Docker names it."""

ROOM_GIB: Final = 1.0
"""Free disk without which no engine is started: its log and its compiled code, no more; builds check their own need."""

_DEFAULT_ADDRESS: Final = "unix:///var/run/docker.sock"
_SAME_ARCHITECTURE: Final = frozenset({"x86_64", ARCHITECTURE})

_GPU_HOOK: Final = "nvidia-container-runtime-hook"
"""The program of the NVIDIA Container Toolkit that Docker looks for when it starts; without it there is no `--gpus`."""

_START: Final = "Start it (sudo systemctl start docker)"
_INSTALL: Final = "Install Docker Engine (https://docs.docker.com/engine/install/)"
_INSTALL_GPU: Final = (
    "Install the NVIDIA Container Toolkit (https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/), then "
    "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker"
)


class DockerUnavailableError(StreamproofError):
    """There is no Docker Engine here that could build or run an image."""


def connect(*, otherwise: str = "", timeout_s: float = 60.0) -> docker.DockerClient:
    """A client of this host's Docker Engine, found as the `docker` command finds it (`DOCKER_HOST`, context, default).

    Args:
        otherwise: what else the user can do instead of using Docker; a sentence that is added to every remedy.
        timeout_s: longest silence of the daemon within one answer. Streams of logs and of a pull's progress have none.

    Returns:
        The client; close it.

    Raises:
        DockerUnavailableError: not installed, not running, not permitted, on another machine, rootless, no Docker, or
            of an architecture that no image is made for.
    """
    try:
        address = docker_address(os.environ)
        _check_local(address)
        client = docker.from_env(timeout=timeout_s)  # type: ignore[arg-type]  # typed as int; requests takes seconds as float
    except (DockerException, ValueError, OSError) as error:
        raise _with(otherwise, _unreachable(error)) from error
    except DockerUnavailableError as error:
        raise _with(otherwise, error) from None
    try:
        refused = unfit(client.version(), client.info(), kernel=platform.release())
    except (DockerException, OSError) as error:
        client.close()
        raise _with(otherwise, _unreachable(error)) from error
    if refused is not None:
        client.close()
        raise _with(otherwise, refused)
    return client


def docker_address(variables: Mapping[str, str]) -> str:
    """Where the daemon is asked: `DOCKER_HOST`, or the context that the `docker` command would use, or the default.

    Args:
        variables: the process's environment variables.

    Raises:
        DockerException: the context that is named does not exist.
    """
    if host := variables.get("DOCKER_HOST"):
        return host
    address: str | None = ContextAPI.kwargs_from_context(environment=dict(variables)).get("base_url")
    return address or _DEFAULT_ADDRESS


def unfit(version: Mapping[str, Any], info: Mapping[str, Any], *, kernel: str) -> DockerUnavailableError | None:
    """Why nothing may be measured with this daemon; None where it will do.

    Args:
        version: its answer to GET /version.
        info: its answer to GET /info.
        kernel: release of the kernel that we run on, as uname says it.
    """
    components = [str(part.get("Name", "")) for part in version.get("Components") or []]
    if other := next((name for name in components if "podman" in name.lower()), None):
        return DockerUnavailableError(
            f"what answers as Docker is {other}: it was never tested with this, and reports images differently",
            remedy=f"{_INSTALL}, and unset DOCKER_HOST or point it to its socket.",
        )
    if any("rootless" in option for option in info.get("SecurityOptions") or []):
        return DockerUnavailableError(
            "this Docker Engine runs rootless: its network passes through a process, and its limits are not enforced, "
            "so its latencies are not the engine's",
            remedy="Use the system's own: unset DOCKER_HOST and DOCKER_CONTEXT, or docker context use default. "
            f"{_START}.",
        )
    theirs = info.get("KernelVersion") or kernel
    if info.get("OSType", "linux") != "linux" or theirs not in {kernel, "<unknown>"}:
        return DockerUnavailableError(
            f"this Docker Engine runs on another machine, perhaps a virtual one ({info.get('OperatingSystem')}, kernel "
            f"{theirs}; here it is {kernel}): it would not see this host's files, cores and GPUs",
            remedy="Run this on that machine, or use an engine of this one: docker context use default.",
        )
    architecture = str(info.get("Architecture", ARCHITECTURE))
    if architecture not in _SAME_ARCHITECTURE:
        return DockerUnavailableError(
            f"this host's architecture is {architecture}; the images are made for linux/{ARCHITECTURE} only",
            remedy="Use a host with an x86-64 processor; emulation would measure the emulator.",
        )
    return None


def require_gpus(client: docker.DockerClient, *, otherwise: str = "") -> None:
    """Return if containers can be given GPUs.

    Args:
        client: from `connect`.
        otherwise: as there.

    Raises:
        DockerUnavailableError: the NVIDIA Container Toolkit is missing.
    """
    # Docker itself only looks for the hook on its own path when it starts; the runtime's entry is there where
    # `nvidia-ctk runtime configure` was used.
    path = os.pathsep.join((os.environ.get("PATH", ""), "/usr/local/bin", "/usr/bin", "/usr/sbin"))
    if "nvidia" not in (client.info().get("Runtimes") or {}) and shutil.which(_GPU_HOOK, path=path) is None:
        raise _with(otherwise, no_gpu_driver())


def require_room(client: docker.DockerClient) -> None:
    """Return if the disk of Docker's own files has room for what a container of an engine writes.

    Args:
        client: from `connect`.

    Raises:
        DockerUnavailableError: it has less than `ROOM_GIB`.
    """
    root = Path(str(client.info().get("DockerRootDir", "")))
    try:
        free_gib = shutil.disk_usage(root).free / (1 << 30)
    except OSError:  # not ours to see; Docker itself says so when it is full
        return
    if free_gib < ROOM_GIB:
        raise DockerUnavailableError(
            f"the disk of Docker's own files is full: {free_gib:.1f} GiB are free at {root}; log and compiled code of "
            f"an engine need {ROOM_GIB:g}",
            remedy="docker system df shows what takes it; docker image prune removes images without a name.",
        )


def no_gpu_driver() -> DockerUnavailableError:
    """The error when Docker refuses to start a container because it cannot give it a GPU."""
    return DockerUnavailableError("Docker cannot give GPUs to containers on this host", remedy=f"{_INSTALL_GPU}.")


def _check_local(address: str) -> None:
    """Refuse other machines before they are asked."""
    if not address.startswith(("unix://", "http+unix://")):
        raise DockerUnavailableError(
            f"the Docker Engine is on another machine, or behind a network address ({address}): it would not see this "
            "host's files, cores and GPUs",
            remedy="Run this on that machine, or use the engine of this one: unset DOCKER_HOST, or "
            "docker context use default.",
        )
    socket = Path(address.split("unix://", 1)[1] or "/var/run/docker.sock")
    try:
        kind = socket.stat().st_mode
    except PermissionError as error:
        raise _forbidden(str(socket)) from error
    except OSError as error:
        missing = shutil.which("dockerd") is None and shutil.which("docker") is None
        raise DockerUnavailableError(
            f"Docker is not {'installed' if missing else 'running'}: {socket}: {error.strerror}",
            remedy=f"{_INSTALL}." if missing else f"{_START}. A daemon elsewhere is named with DOCKER_HOST.",
        ) from error
    if not stat.S_ISSOCK(kind):
        raise DockerUnavailableError(
            f"{socket} is no socket, so no Docker Engine listens there", remedy="Correct DOCKER_HOST, or unset it."
        )
    if not os.access(socket, os.R_OK | os.W_OK):
        raise _forbidden(str(socket))


def _forbidden(socket: str) -> DockerUnavailableError:
    return DockerUnavailableError(
        f"this user may not use Docker: {socket}: Permission denied",
        remedy="Have yourself added to its group (sudo usermod -aG docker $USER; log in again). Whoever is in that "
        "group can become root on this host.",
    )


def _unreachable(error: Exception) -> DockerUnavailableError:
    """In words: the SDK wraps what went wrong into several layers."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, PermissionError):
            return _forbidden("its socket")
        if isinstance(cause, ConnectionRefusedError | FileNotFoundError):
            return DockerUnavailableError(
                f"no Docker Engine answers: {cause.strerror}", remedy=f"{_START} and look at: journalctl -u docker."
            )
        if isinstance(cause, TimeoutError):
            return DockerUnavailableError(
                "the Docker Engine does not answer", remedy="Look at: journalctl -u docker; restart it."
            )
        if isinstance(cause, json.JSONDecodeError):
            return DockerUnavailableError(
                "what answers is no Docker Engine", remedy="Correct DOCKER_HOST, or unset it."
            )
        cause = cause.__cause__ or cause.__context__
    return DockerUnavailableError(
        f"Docker cannot be used: {' '.join(str(error).split())}",
        remedy="See whether `docker info` works; DOCKER_HOST and DOCKER_CONTEXT decide which engine is asked.",
    )


def _with(otherwise: str, error: DockerUnavailableError) -> DockerUnavailableError:
    return DockerUnavailableError(error.message, remedy=" ".join(filter(None, (error.remedy, otherwise))))
