"""How a container is set up, as far as it needs no Docker Engine: GPUs among it, which cannot exist here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.engine.docker_container import CHECKPOINT, HUB_VOLUME, Setup, create_options, described
from bench.engine.docker_image import EngineImage
from bench.images.layout import CACHES, HOME

SECRET = "hunter2-of-this-run"  # noqa: S105  what must not be seen
IMAGE = EngineImage(
    id="sha256:" + "1" * 64,
    name="streamproof/cpu:1",
    repo_digests=(),
    labels={},
    env={},
    entrypoint=("serve",),
    user="10001:10002",
)
SETUP = Setup(
    name="streamproof-cpu-1",
    image=IMAGE,
    arguments=["--port", "8000"],
    environment={"VLLM_CPU_KVCACHE_SPACE": "2"},
    secrets={"VLLM_API_KEY": SECRET, "HF_TOKEN": SECRET},
    checkpoint=Path("/weights"),
    caches="streamproof-caches-1",
    gpus=(),
    cores=None,
    labels={"streamproof.owner": "me"},
)
GPU = replace(SETUP, gpus=("GPU-aaaa", "GPU-bbbb"))


def limits(options: dict[str, Any]) -> dict[str, tuple[int, int]]:
    return {limit["Name"]: (limit["Soft"], limit["Hard"]) for limit in options["ulimits"]}


def test_it_may_do_as_little_as_an_engine_needs() -> None:
    options = create_options(SETUP)
    assert options["user"] == IMAGE.user
    assert options["read_only"] is True
    assert options["cap_drop"] == ["ALL"]
    assert "cap_add" not in options
    assert "privileged" not in options
    assert options["security_opt"] == ["no-new-privileges"]
    assert options["network_mode"] == "bridge"
    assert options["ports"] == {"8000/tcp": ("127.0.0.1", None)}
    assert options["image"] == IMAGE.id  # not by a name that may mean another image by now
    assert options["pids_limit"] > 1000
    assert "mem_limit" not in options
    writable = [mount["Target"] for mount in options["mounts"] if not mount["ReadOnly"]]
    assert writable == [CACHES]
    assert set(options["tmpfs"]) == {"/tmp", HOME}  # noqa: S108  inside the container
    assert "uid=10001,gid=10002" in options["tmpfs"][HOME]


def test_gpus_are_given_by_their_identity_and_may_lock_memory() -> None:
    (request,) = create_options(GPU)["device_requests"]
    assert request["DeviceIDs"] == ["GPU-aaaa", "GPU-bbbb"]
    assert request["Capabilities"] == [["gpu", "compute", "utility"]]
    assert request["Count"] == 0  # beside identities there is no number
    assert limits(create_options(GPU))["memlock"] == (-1, -1)
    assert create_options(SETUP)["device_requests"] is None
    assert "memlock" not in limits(create_options(SETUP))
    assert described(GPU)["gpus"] == "GPU-aaaa, GPU-bbbb"


def test_weights_are_read_from_a_folder_or_kept_where_the_engine_downloads_them() -> None:
    mounts = {mount["Target"]: mount for mount in create_options(SETUP)["mounts"]}
    assert (mounts[CHECKPOINT]["Source"], mounts[CHECKPOINT]["ReadOnly"]) == ("/weights", True)
    hub = create_options(replace(SETUP, checkpoint=None))
    mounts = {mount["Target"]: mount for mount in hub["mounts"]}
    assert mounts[HOME]["Source"] == HUB_VOLUME
    assert CHECKPOINT not in mounts
    assert HOME not in hub["tmpfs"]


def test_cores_of_its_own() -> None:
    assert create_options(replace(SETUP, cores={3, 1, 2}))["cpuset_cpus"] == "1,2,3"
    assert create_options(SETUP)["cpuset_cpus"] is None
    assert described(SETUP)["cpuset-cpus"] == "all"


def test_secrets_are_in_the_environment_and_nowhere_else() -> None:
    options = create_options(SETUP)
    assert options["environment"]["VLLM_API_KEY"] == options["environment"]["HF_TOKEN"] == SECRET
    shown = {name: value for name, value in options.items() if name != "environment"}
    for text in (repr(shown), repr(SETUP), repr(described(SETUP))):
        assert SECRET not in text


def test_every_setting_that_matters_is_told() -> None:
    told = described(GPU)
    assert told["read-only"] == "yes"
    assert told["mount"] == f"streamproof-caches-1 at {CACHES}; /weights at {CHECKPOINT}, read-only"
    assert "memlock -1" in told["ulimit"]
    assert "127.0.0.1 only" in told["network"]
