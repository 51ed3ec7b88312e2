"""How an engine's container is set up: as little as an engine needs, and the same on every host.

The engine runs as the image's own user, without capabilities and without a way to new ones, on a root that it cannot
write; what it may write is the volume of its caches, `/tmp` and its home. It is reached on this host's loopback only,
with a key that is made for this one start.

The key, and a hub's token, are in the container's environment for as long as it exists. Whoever may use the Docker
Engine can read them there (`docker inspect`), but can also do everything else as root; nobody else sees them: they are
on no command line, in no log, in no label and in no report, and they go with the container.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from docker.types import DeviceRequest, LogConfig, Mount, Ulimit

from bench.engine.own import HOST
from bench.images.layout import CACHES, HOME, PORT

if TYPE_CHECKING:
    from bench.engine.docker_image import EngineImage

CHECKPOINT: Final = "/checkpoint"
"""Where a checkpoint's folder is in the container, read-only."""

HUB_VOLUME: Final = "streamproof-hub"
"""Keeps what an engine downloads from a hub, for every recipe that needs it."""

SHM_BYTES: Final = 16 << 30
"""A limit, not a reservation. NCCL and vLLM's queues between processes fail in the 64 MiB that Docker gives."""

STACK_BYTES: Final = 64 << 20
"""What NVIDIA's own images ask for, beside unlimited locked memory."""

OPEN_FILES: Final = 16_384
"""A connection for each of 10,000 streams and some to spare; every host's own limit would be another one."""

PIDS: Final = 16_384
"""Threads count, of which torch and its compiler start several for each core; a runaway fork is still stopped."""

NOT_PRIVILEGED: Final = "no-new-privileges"

_GPU_CAPABILITIES: Final = ["gpu", "compute", "utility"]
"""What the driver's libraries are brought into the container for; "utility" is NVML."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What differs between containers.

    Attributes:
        name: of the container.
        image: that runs.
        arguments: of its entrypoint.
        environment: variables beside the image's own, no secrets.
        secrets: further variables; never shown.
        checkpoint: folder on this host that is mounted at `CHECKPOINT`; None for weights that the engine downloads.
        caches: name of the volume that is mounted at `bench.images.layout.CACHES`.
        gpus: UUIDs of the GPUs that it may use.
        cores: of this host that it may use; None for all.
        labels: of the container.
    """

    name: str
    image: EngineImage
    arguments: Sequence[str]
    environment: Mapping[str, str]
    secrets: Mapping[str, str] = field(repr=False)
    checkpoint: Path | None
    caches: str
    gpus: Sequence[str]
    cores: set[int] | None
    labels: Mapping[str, str]


def create_options(setup: Setup) -> dict[str, Any]:
    """Arguments for `docker.models.containers.ContainerCollection.create`."""
    limits = [
        Ulimit(name="stack", soft=STACK_BYTES, hard=STACK_BYTES),
        Ulimit(name="nofile", soft=OPEN_FILES, hard=OPEN_FILES),
    ]
    if setup.gpus:  # pinned memory that a GPU reads from is locked
        limits.append(Ulimit(name="memlock", soft=-1, hard=-1))
    return {
        "name": setup.name,
        "image": setup.image.id,
        "command": list(setup.arguments),
        "environment": {**setup.environment, **setup.secrets},
        "labels": dict(setup.labels),
        "user": setup.image.user,
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": [NOT_PRIVILEGED],
        "init": True,  # it reaps what the engine leaves, and hands the request to stop on
        "healthcheck": {"test": ["NONE"]},  # ours asks from outside; theirs would start a process in the window
        "log_config": LogConfig(type=LogConfig.types.JSON),  # whatever the host's default is, it can be read
        "network_mode": "bridge",
        # No host port is named: Docker takes a free one, and another one if somebody is faster.
        "ports": {f"{PORT}/tcp": (HOST, None)},
        "shm_size": SHM_BYTES,
        "ulimits": limits,
        "pids_limit": PIDS,
        "cpuset_cpus": None if setup.cores is None else _list(setup.cores),
        "device_requests": _gpu_request(setup.gpus),
        "mounts": _mounts(setup),
        "tmpfs": _tmpfs(setup),
    }


def described(setup: Setup) -> dict[str, str]:
    """The settings in words, for the report: by the names of `docker run`'s options, nothing secret."""
    options = create_options(setup)
    mounts = [f"{one['Source']} at {one['Target']}{', read-only' if one['ReadOnly'] else ''}" for one in _mounts(setup)]
    return {
        "user": setup.image.user,
        "read-only": "yes",
        "cap-drop": "ALL",
        "security-opt": NOT_PRIVILEGED,
        "init": "yes",
        "network": f"bridge, published on {HOST} only, with a key of this start",
        "shm-size": f"{SHM_BYTES >> 30} GiB",
        "ulimit": ", ".join(f"{limit['Name']} {limit['Soft']}" for limit in options["ulimits"]),
        "pids-limit": str(PIDS),
        "cpuset-cpus": options["cpuset_cpus"] or "all",
        "gpus": ", ".join(setup.gpus) or "none",
        "mount": "; ".join(mounts),
        "tmpfs": ", ".join(options["tmpfs"]),
        "memory": "no limit",
        "healthcheck": "none",
    }


def _mounts(setup: Setup) -> list[Mount]:
    found = [Mount(target=CACHES, source=setup.caches, type="volume")]
    if setup.checkpoint is None:
        # A new volume takes the owner of the image's folder, so that the image's user may write it.
        found.append(Mount(target=HOME, source=HUB_VOLUME, type="volume"))
    else:
        found.append(Mount(target=CHECKPOINT, source=str(setup.checkpoint), type="bind", read_only=True))
    return found


def _tmpfs(setup: Setup) -> dict[str, str]:
    # Engines compile there and load what they compiled: without "exec" they could not.
    writable = {"/tmp": "rw,exec,nosuid,nodev,mode=1777"}  # noqa: S108  inside the container
    if setup.checkpoint is not None:
        user, _, group = setup.image.user.partition(":")
        writable[HOME] = f"rw,nosuid,nodev,mode=0700,uid={user},gid={group or user}"
    return writable


def _gpu_request(gpus: Sequence[str]) -> list[DeviceRequest] | None:
    return [DeviceRequest(device_ids=list(gpus), capabilities=[_GPU_CAPABILITIES])] if gpus else None


def _list(cores: set[int]) -> str:
    return ",".join(map(str, sorted(cores)))
