"""A Docker Engine, and a registry, of the tests' own: in one temporary folder, gone with the tests."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

import docker
import psutil
from docker.errors import DockerException

from bench.engine.guarded import GuardedProcess

PARENT = Path("/var/tmp")  # noqa: S108  on a disk, which /tmp need not be; overlay2 asks for one
PREFIX = "streamproof-docker-"
SUBNETS = (f"10.213.{number}" for number in range(256))
GRACE_S = 20.0
START_S = 60.0

T = TypeVar("T")


class CannotStartError(Exception):
    """The daemon or the registry ended, or did not answer; its log says why."""


@contextmanager
def private_docker() -> Iterator[tuple[str, docker.DockerClient]]:
    """Starts dockerd with its own data, containers, network bridge and socket. Yields its address and a client.

    Raises:
        CannotStartError: it cannot be started.
    """
    _sweep()
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=PARENT))
        stack.callback(_remove, folder)
        held = stack.enter_context((folder / "lock").open("w"))
        fcntl.flock(held, fcntl.LOCK_EX)
        bridge = stack.enter_context(_bridge())
        reasons = []
        for driver in ("overlay2", "vfs"):
            try:
                address, client = stack.enter_context(_daemon(folder / driver, driver, bridge))
            except CannotStartError as error:
                reasons.append(str(error))
                continue
            yield address, client
            return
        raise CannotStartError("\n".join(reasons))


@contextmanager
def loopback_registry(program: str) -> Iterator[str]:
    """Starts a registry (Debian's docker-registry). Yields its address, "127.0.0.1:PORT".

    Raises:
        CannotStartError: it cannot be started.
    """
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=PARENT) as name:
        folder = Path(name)
        storage = {"filesystem": {"rootdirectory": str(folder / "storage")}}
        settings = {"version": 0.1, "storage": storage, "http": {"addr": "127.0.0.1:0"}}
        (folder / "config.yml").write_text(json.dumps(settings))  # JSON is YAML too
        log = folder / "log"
        process = GuardedProcess(
            [program, "serve", str(folder / "config.yml")], env=dict(os.environ), log=log, grace_s=GRACE_S
        )
        try:
            yield _until(lambda: _listening(log), process, log)
        finally:
            process.stop()


@contextmanager
def _daemon(folder: Path, driver: str, bridge: str) -> Iterator[tuple[str, docker.DockerClient]]:
    folder.mkdir()
    (folder / "settings.json").write_text("{}")  # the machine's own do not count
    address = f"unix://{folder}/socket"
    options = {
        "config-file": folder / "settings.json",
        "data-root": folder / "data",
        "exec-root": folder / "exec",
        "pidfile": folder / "pid",
        "host": address,
        "bridge": bridge,
        "storage-driver": driver,
        "shutdown-timeout": 5,
        "log-level": "warn",
    }
    log = folder / "log"
    command = ["dockerd", *(f"--{name}={value}" for name, value in options.items())]
    process = GuardedProcess(command, env=dict(os.environ), log=log, grace_s=GRACE_S)
    try:
        _until(lambda: _connectable(folder / "socket"), process, log)
        try:
            client = docker.DockerClient(base_url=address, timeout=600)  # the daemon answers once it has started
        except DockerException as error:
            raise CannotStartError(f"{error}: {log.read_text()[-1000:]}") from error
        try:
            yield address, client
        finally:
            client.close()
    finally:
        process.stop()


def _connectable(path: Path) -> bool | None:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return None
    return True


def _listening(log: Path) -> str | None:
    """ "127.0.0.1:5000" from "... msg="listening on 127.0.0.1:5000"..."."""
    words = log.read_text().partition("listening on ")[2].split()
    return words[0].strip('",') if words else None


def _until(ready: Callable[[], T | None], process: GuardedProcess, log: Path) -> T:
    pause = threading.Event()
    for _ in range(int(START_S / 0.05)):
        if process.poll() is not None:
            break
        if (answer := ready()) is not None:
            return answer
        pause.wait(0.05)
    raise CannotStartError(f"{log}:\n" + "\n".join(log.read_text().splitlines()[-5:]))


@contextmanager
def _bridge() -> Iterator[str]:
    """A network of its own: another daemon on this machine has docker0, and both would give out the same addresses."""
    taken = {address.address for all_of in psutil.net_if_addrs().values() for address in all_of}
    subnet = next(subnet for subnet in SUBNETS if f"{subnet}.1" not in taken)
    name = f"sp{os.getpid()}"
    _ip("link", "add", name, "type", "bridge")
    try:
        _ip("address", "add", f"{subnet}.1/24", "dev", name)
        _ip("link", "set", name, "up")
        yield name
    finally:
        _ip("link", "delete", name)


def _ip(*arguments: str) -> None:
    try:
        subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise CannotStartError("the program ip is missing (Debian: iproute2)") from error
    except subprocess.CalledProcessError as error:
        raise CannotStartError(f"ip {' '.join(arguments)}: {error.stderr.strip()}") from error


def _sweep() -> None:
    """Removes what tests left that were killed: nobody holds its lock any more."""
    for folder in PARENT.glob(f"{PREFIX}*"):
        lock = folder / "lock"
        if not lock.exists():
            continue
        with lock.open() as held:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            _remove(folder)


def _remove(folder: Path) -> None:
    # A daemon that was killed leaves its containers' file systems mounted.
    for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
        place = line.split()[1]
        if Path(place).is_relative_to(folder):
            subprocess.run(["umount", "--lazy", place], check=False, capture_output=True)
    shutil.rmtree(folder, ignore_errors=True)
