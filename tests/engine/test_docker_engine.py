"""An engine in a container, on a real Docker Engine; the engine itself is a stand-in that is ready at once."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import docker
import psutil
import pytest
from docker.errors import NotFound
from docker.models.containers import Container

from bench.engine import docker as module
from bench.engine import docker_watch
from bench.engine.base import RunningEngine
from bench.engine.caches import MadeWith, volume_name
from bench.engine.compiled import Look, Since
from bench.engine.docker import ContainerLaunch, DockerEngine
from bench.engine.docker_caches import open_volume
from bench.engine.docker_container import CHECKPOINT, create_options
from bench.engine.docker_image import local_image
from bench.engine.docker_owner import LABEL, Owner
from bench.engine.docker_watch import WatchedContainer
from bench.engine.own import RunningOwn
from bench.engine.replicas import Replica, ReplicatedEngine
from bench.errors import StreamproofError
from bench.images.layout import CACHES, HOME, USER_ID
from bench.observe.observations import OBSERVATION, EngineEvent
from bench.observe.wall_clock import TICK_S

ROOT = Path(__file__).parents[2]
HERE = MadeWith(
    fingerprint="ab" * 32,
    target="toy",
    engine="docker",
    version="0.26.0",
    devices=("a CPU",),
    driver=None,
    packages="cd" * 32,
)
TOKEN = "hf_of_a_user_that_nobody_may_see"  # noqa: S105  made up


@pytest.fixture
def volume(docker_client: docker.DockerClient) -> Iterator[str]:
    yield open_volume(docker_client, HERE)
    docker_client.volumes.get(volume_name(HERE)).remove()


@pytest.fixture
def launch(
    docker_client: docker.DockerClient, docker_host: str, standin_image: str, volume: str, tmp_path: Path
) -> ContainerLaunch:
    assert docker_host  # the watcher finds the Docker Engine by itself
    weights = tmp_path / "weights"
    weights.mkdir()
    (weights / "config.json").write_text("{}")
    return ContainerLaunch(
        client=docker_client,
        image=local_image(docker_client, standin_image),
        arguments=lambda host, port: ["--host", host, "--port", str(port), "--served-model-name", "toy"],
        model="toy",
        env={"STANDIN": "serve"},
        tokens={"HF_TOKEN": TOKEN},
        checkpoint=weights,
        caches=volume,
        gpus=(),
        cores=None,
        given=True,
        base_replaced=False,
        log=tmp_path / "engine-0.log",
        ready_timeout_s=60.0,
    )


def doing(launch: ContainerLaunch, what: str) -> ContainerLaunch:
    return replace(launch, env={"STANDIN": what})


def engine(launch: ContainerLaunch) -> DockerEngine:
    return DockerEngine(launch, run=2, clock=time.monotonic)


def watched(running: RunningOwn) -> WatchedContainer:
    assert isinstance(running.body, WatchedContainer)
    return running.body


def containers(client: docker.DockerClient) -> list[Container]:
    """Those of this test's process."""
    found = client.containers.list(all=True, filters={"label": LABEL}, ignore_removed=True)
    return [one for one in found if one.labels[LABEL] == str(Owner.this())]


def inside(container: Container, command: str) -> str:
    code, output = container.exec_run(["sh", "-c", command])
    assert code == 0, output
    assert isinstance(output, bytes)
    return output.decode()


def test_an_engine_is_ready_inside_the_context_and_gone_after_it(
    launch: ContainerLaunch, docker_client: docker.DockerClient
) -> None:
    with engine(launch) as running:
        assert running.alive()
        (container,) = containers(docker_client)
        assert running.base_url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(f"{running.base_url}/health") as answer:  # noqa: S310  our own http URL
            assert answer.status == 200
    assert containers(docker_client) == []
    assert not running.alive()
    assert [event.event for event in running.events() if event.event != "warning"] == []
    with pytest.raises(NotFound):
        container.reload()


def test_replicas_are_containers_side_by_side(launch: ContainerLaunch, docker_client: docker.DockerClient) -> None:
    def replica(number: int) -> Replica:
        mine = replace(launch, log=launch.log.with_name(f"engine-0-replica-{number}.log"))
        return Replica(
            make=lambda on_progress: DockerEngine(mine, run=2, clock=time.monotonic, on_progress=on_progress),
            gpus=(),
            cores=None,
        )

    with ReplicatedEngine([replica(0), replica(1)], clock=time.monotonic) as running:
        assert len(containers(docker_client)) == 2
        one, two = running.servers
        assert one.base_url != two.base_url
        assert None not in {one.api_key, two.api_key}
        assert one.api_key != two.api_key
        assert [each.argv for each in running.started.replicas] == [running.started.argv] * 2
        containers(docker_client)[0].kill()
        death = until_dead(running)
        assert (death.event, death.line) == ("died", "it was killed by SIGKILL")
        assert death.replica in {0, 1}
    assert containers(docker_client) == []


def test_what_is_known_of_it(launch: ContainerLaunch, docker_client: docker.DockerClient) -> None:
    with engine(replace(launch, cores={0})) as running:
        started = running.started
        (container,) = containers(docker_client)
        facts = container.attrs["HostConfig"]
        processes = container.top(ps_args="-eo pid,uid")["Processes"]
    assert OBSERVATION.validate_json(started.model_dump_json()) == started
    assert (started.run, started.kind_of_engine, started.version) == (2, "docker", "0.26.0")
    assert (started.model, started.max_model_len, started.block_size) == ("toy", 4096, 640)
    assert started.argv is not None
    assert started.argv[-2:] == ("--served-model-name", "toy")
    assert started.ready_s is not None
    assert [stage.name for stage in started.stages][-1] == "server-start"
    told = started.container
    assert told is not None
    assert (told.image_id, told.uid, told.given) == (launch.image.id, USER_ID, True)
    assert told.labels == launch.image.labels
    assert told.docker == docker_client.version()["Version"]
    assert told.settings["cpuset-cpus"] == facts["CpusetCpus"] == "0"
    assert {uid for _, uid in processes} == {str(USER_ID)}
    assert (facts["ReadonlyRootfs"], facts["CapDrop"], facts["Privileged"]) == (True, ["ALL"], False)
    assert facts["PortBindings"]["8000/tcp"][0]["HostIp"] == "127.0.0.1"


def test_it_cannot_do_what_an_engine_need_not_do(launch: ContainerLaunch, docker_client: docker.DockerClient) -> None:
    with engine(launch):
        (container,) = containers(docker_client)
        status = inside(container, "cat /proc/self/status")
        assert "CapEff:\t0000000000000000" in status
        assert "CapBnd:\t0000000000000000" in status
        assert "NoNewPrivs:\t1" in status
        assert inside(container, "ulimit -n; ulimit -s").split() == ["16384", "65536"]
        for folder in ("/opt", "/etc", CHECKPOINT):
            assert container.exec_run(["touch", f"{folder}/x"]).exit_code != 0, folder
        for folder in ("/tmp", HOME, CACHES):  # noqa: S108  inside the container
            assert container.exec_run(["touch", f"{folder}/x"]).exit_code == 0, folder
        assert inside(container, f"cat {CHECKPOINT}/config.json") == "{}"


def test_the_key_is_new_each_time_is_asked_for_and_stands_nowhere(
    launch: ContainerLaunch, docker_client: docker.DockerClient
) -> None:
    keys = set()
    for _ in range(2):
        with engine(launch) as running:
            key = running.api_key
            assert key is not None
            keys.add(key)
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(f"{running.base_url}/v1/models")  # noqa: S310  our own http URL
            refused.value.close()
            assert refused.value.code == 401
            (container,) = containers(docker_client)
            environment = container.attrs["Config"].pop("Env")
            assert f"HF_TOKEN={TOKEN}" in environment
            seen = [
                json.dumps(container.attrs),
                running.started.model_dump_json(),
                repr(launch),
                launch.log.read_text(),
            ]
            for process in psutil.process_iter(["cmdline"]):
                seen.append(" ".join(process.info["cmdline"] or ()))  # noqa: PERF401  clearer so
            for text in seen:
                assert key not in text
                assert TOKEN not in text
    assert len(keys) == 2


def test_warm_or_cold_is_known_before_the_start(launch: ContainerLaunch, docker_client: docker.DockerClient) -> None:
    with engine(launch) as running:
        assert running.started.cold is True
        (container,) = containers(docker_client)
        inside(container, f"mkdir -p {CACHES}/vllm/torch_compile_cache && touch {CACHES}/vllm/torch_compile_cache/x")
    with engine(launch) as running:
        assert running.started.cold is False


def test_what_it_compiles_is_seen_from_inside(launch: ContainerLaunch, docker_client: docker.DockerClient) -> None:
    since = Since(written=time.time() - TICK_S, first=time.time())
    with engine(launch) as running:
        assert running.compiled_since(since) == [Look(count=0)]
        (container,) = containers(docker_client)
        kernel = f"{CACHES}/vllm/deep_gemm/cache/kernel.a"
        inside(container, f"mkdir -p {kernel} && echo code > {kernel}/kernel.cu")
        (look,) = running.compiled_since(since)
        assert [(cache, path) for _, cache, path in look.files] == [("deep_gemm", "cache/kernel.a/kernel.cu")]
        assert since.first - TICK_S <= look.files[0][0] <= time.time()
        inside(container, f"rm -r {CACHES}/vllm/deep_gemm && echo nothing > {CACHES}/vllm/deep_gemm")
        assert "Not a directory" in (running.compiled_since(since)[0].why_not or "")
        container.kill()
        assert "is not running" in (running.compiled_since(since)[0].why_not or "")


def test_a_volume_that_nobody_described_is_not_used(docker_client: docker.DockerClient) -> None:
    other = HERE.model_copy(update={"fingerprint": "ef" * 32})
    foreign = docker_client.volumes.create(volume_name(other))
    try:
        with pytest.raises(StreamproofError, match="would be executed") as caught:
            open_volume(docker_client, other)
        assert f"docker volume rm {foreign.name}" in caught.value.remedy
    finally:
        foreign.remove()


def test_a_start_that_fails_says_at_which_stage_and_why(
    launch: ContainerLaunch, docker_client: docker.DockerClient
) -> None:
    with pytest.raises(StreamproofError) as caught, engine(doing(launch, "die")):
        pass
    first, *rest = caught.value.message.splitlines()
    assert first == "the engine died while loading weights: it ended with status 1: ValueError: no such tensor"
    assert rest[-1].strip() == "(EngineCore pid=2) ERROR 11-29 22:33:43 [core.py:1330] ValueError: no such tensor"
    assert str(launch.log) in caught.value.remedy
    assert containers(docker_client) == []


def test_a_program_that_is_not_in_the_image(launch: ContainerLaunch, docker_client: docker.DockerClient) -> None:
    image = docker_client.containers.create(launch.image.id)
    try:
        broken = image.commit(conf={"Entrypoint": ["/opt/absent"]})
    finally:
        image.remove()
    try:
        with pytest.raises(StreamproofError) as caught:
            engine(replace(launch, image=local_image(docker_client, str(broken.id)))).__enter__()
        assert "it ended with status 127" in caught.value.message
        assert "exec /opt/absent failed: No such file or directory" in caught.value.message
        assert containers(docker_client) == []
    finally:
        docker_client.images.remove(str(broken.id))


def test_a_checkpoint_that_docker_does_not_see(launch: ContainerLaunch, docker_client: docker.DockerClient) -> None:
    with pytest.raises(StreamproofError, match="does not see this file system"):
        engine(replace(launch, checkpoint=Path("/absent/weights"))).__enter__()
    assert containers(docker_client) == []


def test_a_port_that_is_taken(
    launch: ContainerLaunch, docker_client: docker.DockerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        taken = {"ports": {"8000/tcp": ("127.0.0.1", port)}}  # otherwise Docker takes a free one
        monkeypatch.setattr(module, "create_options", lambda setup: {**create_options(setup), **taken})
        with pytest.raises(StreamproofError, match="the port is taken") as caught:
            engine(launch).__enter__()
    assert "Run the command again" in caught.value.remedy
    assert containers(docker_client) == []


def test_a_start_that_takes_too_long_leaves_nothing(
    launch: ContainerLaunch, docker_client: docker.DockerClient
) -> None:
    now = [0.0]

    def clock() -> float:  # a minute passes once the stand-in stands at the stage at which it hangs
        if launch.log.exists() and "Starting to load model" in launch.log.read_text():
            now[0] += 60.0
        return now[0]

    with pytest.raises(StreamproofError) as caught:
        DockerEngine(replace(doing(launch, "hang"), ready_timeout_s=300.0), run=0, clock=clock).__enter__()
    assert caught.value.message.startswith("the engine was not ready after 300 s; it was loading weights\n")
    assert containers(docker_client) == []


def until_dead(running: RunningEngine) -> EngineEvent:
    """The last event."""
    pause = threading.Event()
    for _ in range(600):
        if not running.alive():
            return running.events()[-1]
        pause.wait(0.1)
    raise AssertionError("it lives on")


def test_a_death_while_serving_is_the_last_event_and_names_the_cause(launch: ContainerLaunch) -> None:
    with engine(doing(launch, "perish")) as running:
        request = urllib.request.Request(f"{running.base_url}/v1/completions", b"{}")  # noqa: S310  our own http URL
        with pytest.raises((OSError, http.client.HTTPException)):
            urllib.request.urlopen(request)  # noqa: S310  as above
        assert until_dead(running).line == "it ended with status 1: RuntimeError: Input tensor dtype mismatch"
        assert running.events() == []


def test_an_engine_killed_by_somebody_else(launch: ContainerLaunch, docker_client: docker.DockerClient) -> None:
    with engine(launch) as running:
        containers(docker_client)[0].kill()
        assert until_dead(running).line == "it was killed by SIGKILL"
    assert containers(docker_client) == []


def test_an_engine_that_the_kernel_killed_for_memory(
    launch: ContainerLaunch, docker_client: docker.DockerClient
) -> None:
    with engine(launch) as running:
        (container,) = containers(docker_client)
        container.update(mem_limit="32m", memswap_limit="32m")
        eat = "x = []\nwhile True: x.append(bytearray(1 << 20))"
        assert container.exec_run(["python3", "-c", eat]).exit_code == 128 + signal.SIGKILL
        container.kill()
        assert until_dead(running).line == (
            "the kernel killed a process of it because memory ran out; it was killed by SIGKILL"
        )


def test_a_watcher_that_is_killed_ends_the_run_and_leaves_nothing(
    launch: ContainerLaunch, docker_client: docker.DockerClient
) -> None:
    with engine(launch) as running:
        watched(running)._watcher.kill()
        assert until_dead(running).line.startswith("the watcher of its container was killed")
    assert containers(docker_client) == []


def test_an_engine_that_does_not_stop_is_killed(
    launch: ContainerLaunch, docker_client: docker.DockerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker_watch, "GRACE_S", 1.0)
    with engine(doing(launch, "stubborn")) as running:
        pass
    assert containers(docker_client) == []
    assert [event for event in running.events() if event.event == "died"] == []  # we wanted it to end


def test_an_interrupt_during_the_start_leaves_nothing(
    launch: ContainerLaunch, docker_client: docker.DockerClient
) -> None:
    def interrupt(_: Any) -> None:
        assert containers(docker_client)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        DockerEngine(doing(launch, "hang"), run=0, clock=time.monotonic, on_progress=interrupt).__enter__()
    assert containers(docker_client) == []


def test_the_log_is_kept_whole(launch: ContainerLaunch) -> None:
    launch.log.write_text("an earlier line\n")
    with engine(launch):
        pass
    text = launch.log.read_text()
    assert text.startswith("an earlier line\n")
    assert "Application startup complete" in text


CLIENT = """
import os, signal, sys, time
from pathlib import Path
import docker
from bench.engine.docker_owner import LABEL, Owner
from bench.engine.docker_watch import WatchedContainer
client = docker.from_env()
container = client.containers.create(sys.argv[1], environment={"STANDIN": "stubborn", "VLLM_API_KEY": "x"},
    command=["--host", "0.0.0.0", "--port", "8000", "--served-model-name", "toy"], labels={LABEL: str(Owner.this())})
body = WatchedContainer(container, Path(sys.argv[2]))
if os.fork() == 0:
    pass  # another process of the client, which holds a copy of the lifeline and lives on
else:
    print(container.id, body._watcher.pid, flush=True)
signal.pause()
"""


def test_the_client_killed_leaves_no_container(
    docker_client: docker.DockerClient, docker_host: str, standin_image: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", CLIENT, standin_image, str(tmp_path / "log")]
    environment = {**os.environ, "DOCKER_HOST": docker_host}
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, env=environment, start_new_session=True) as client:
        assert client.stdout
        container, watcher = client.stdout.readline().decode().split()
        assert docker_client.containers.get(container).status == "running"
        client.kill()
        client.wait()
        _, alive = psutil.wait_procs([psutil.Process(int(watcher))], timeout=60)
        assert not alive
        os.killpg(client.pid, signal.SIGKILL)  # the copy that was forked
    with pytest.raises(NotFound):
        docker_client.containers.get(container)
