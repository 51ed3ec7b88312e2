"""Whose container is this? A label names the client that started it, and a later start removes what lost its client.

A container outlives a client that is killed together with its watcher (`bench.engine.docker_guard`), or whose host
loses power. The next start sweeps: it removes the containers whose client is certainly gone, and no others.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from docker.errors import NotFound

from bench.engine.docker_errors import DOCKER_ERRORS, explained

if TYPE_CHECKING:
    import docker

    from bench.engine.install import Say

LABEL: Final = "streamproof.owner"
"""Of every container that we make: its client, as `Owner` writes it."""

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE: Final = Path("/proc/self/ns/pid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A process, told apart from every other one, also from those that get its number later.

    Attributes:
        boot: id of the kernel's boot.
        namespace: of process ids, as the kernel names it ("pid:[4026531836]"): a client in a container has its own.
        pid: its number in that namespace.
        started: when it was started, in clock ticks since the boot.
    """

    boot: str
    namespace: str
    pid: int
    started: int

    @classmethod
    def this(cls) -> Self:
        """The process that asks.

        Raises:
            OSError: it cannot read about itself: there is no /proc.
        """
        _, started = _state_and_start(os.getpid()) or ("", 0)
        return cls(
            boot=_BOOT_ID.read_text().strip(),
            namespace=str(_NAMESPACE.readlink()),
            pid=os.getpid(),
            started=started,
        )

    @classmethod
    def parse(cls, label: str) -> Self | None:
        """What `str` wrote; None for anything else."""
        parts = label.split()
        if len(parts) != 4 or not (parts[2].isdecimal() and parts[3].isdecimal()):
            return None
        return cls(boot=parts[0], namespace=parts[1], pid=int(parts[2]), started=int(parts[3]))

    def __str__(self) -> str:
        return f"{self.boot} {self.namespace} {self.pid} {self.started}"

    def is_gone(self, here: Owner, lives: Callable[[int, int], bool]) -> bool:
        """Whether this process certainly does not live any more.

        Args:
            here: the process that asks.
            lives: whether the process of a number, started then, may still live.
        """
        if self.boot != here.boot:
            return True  # its kernel is gone
        if self.namespace != here.namespace:
            return False  # its numbers mean nothing here
        return not lives(self.pid, self.started)


def may_live(pid: int, started: int) -> bool:
    """Whether the process of that number, started then, lives; True also where its start is not ours to see."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    found = _state_and_start(pid)
    return found is None or (found[0] not in "ZX" and found[1] == started)


def _state_and_start(pid: int) -> tuple[str, int] | None:
    """Letter of its state, and its start in clock ticks since the boot (fields 3 and 22 of /proc/PID/stat)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # Its name stands in brackets and may hold anything, spaces and brackets included.
    fields = stat[stat.rindex(")") :].split()
    return fields[1], int(fields[20])


def sweep(client: docker.DockerClient, *, say: Say) -> int:
    """Remove the containers whose client is gone.

    Args:
        client: of the Docker Engine.
        say: hears of each of them.

    Returns:
        How many were removed.

    Raises:
        StreamproofError: the Docker Engine does not do it.
    """
    here, removed = Owner.this(), 0
    try:
        for container in client.containers.list(all=True, filters={"label": LABEL}, ignore_removed=True):
            owner = Owner.parse(container.labels.get(LABEL, ""))
            if owner is not None and owner.is_gone(here, may_live):
                say(f"Removing the container {container.name}, whose client (process {owner.pid}) is gone")
                with suppress(NotFound):  # another client sweeps too
                    container.remove(force=True)
                removed += 1
    except DOCKER_ERRORS as error:
        raise explained(error, "remove containers that lost their client") from error
    return removed
