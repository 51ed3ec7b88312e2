"""The main job with its engine in a container, as a user runs it: whole, killed, interrupted, wrong.

All but one of these run the reference server in the stand-in's image; that one builds the real engine's image and runs
it.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import docker
import psutil
import pytest
from docker.errors import NotFound
from docker.models.containers import Container

from bench.engine.docker_owner import LABEL, Owner
from bench.images.base import Base
from bench.images.build import BuiltImage
from bench.images.labels import DEFINITION
from bench.images.layout import USER_ID
from bench.report import folder_files as files
from tests.run.repro_client import ROOT, ReproClient

TRUTH = {"prefix_caching": True, "block_size": 16}
SETTINGS = {
    "workload.api": "token_ids",
    "workload.prompt_tokens": "900",
    "workload.shared_prefix_tokens": "500",
    "load.ladder": "[{streams = 2}]",
    "load.turn_gap": '{distribution = "fixed", mean_s = 0.05}',
    "load.ramp_s": "0.3",
    "load.steady_s": "2.0",
    "engine.env.TRUTH": json.dumps(TRUTH),
}
LONG = {**SETTINGS, "load.steady_s": "25"}
TOKEN = "hf_of_a_user_that_nobody_may_see"  # noqa: S105  made up


class Client(ReproClient):
    """With its engine in a container of the Docker Engine at `host`."""

    PATIENCE_S = 600.0  # one of them starts the real engine

    def __init__(self, tmp_path: Path, settings: dict[str, str], *options: str, host: str) -> None:
        super().__init__(tmp_path, settings, *options, environment={"DOCKER_HOST": host, "HF_TOKEN": TOKEN})

    @property
    def container(self) -> dict[str, Any]:
        """What the report's evidence says of image and container."""
        for line in (self.folder / files.OBSERVATIONS).read_text().splitlines():
            if (seen := json.loads(line))["kind"] == "engine_started":
                assert seen["kind_of_engine"] == "docker"
                container: dict[str, Any] = seen["container"]
                return container
        raise AssertionError("no engine was started")

    def containers(self, client: docker.DockerClient) -> list[Container]:
        """Those that this client has made."""
        found = client.containers.list(all=True, filters={"label": LABEL}, ignore_removed=True)
        return [one for one in found if one.labels[LABEL].split()[2] == str(self.process.pid)]

    def verified(self) -> bool:
        command = [sys.executable, "-m", "bench", "verify", str(self.folder), "--json"]
        done = subprocess.run(command, cwd=ROOT, env=self.environment, capture_output=True, text=True, check=False)
        return json.loads(done.stdout)["verified"] is True


class Start:
    """Starts clients, and ends those that a failing test leaves."""

    def __init__(self, tmp_path: Path, host: str) -> None:
        self._tmp_path = tmp_path
        self._host = host
        self.clients: list[Client] = []

    def __call__(self, settings: dict[str, str], *options: str, host: str | None = None) -> Client:
        self.clients.append(Client(self._tmp_path, settings, *options, host=host or self._host))
        return self.clients[-1]


@pytest.fixture
def start(tmp_path: Path, docker_address: str) -> Iterator[Start]:
    start = Start(tmp_path, docker_address)
    yield start
    for client in start.clients:
        client.process.kill()
        client.process.communicate()


def test_a_whole_run_in_a_container(
    start: Start, docker_client: docker.DockerClient, standin_image: str, debian_base: Base
) -> None:
    gone = replace(Owner.this(), boot="a-boot-before-this-one")
    left_over = docker_client.containers.create(debian_base.reference, ["true"], labels={LABEL: str(gone)})
    client = start(SETTINGS, "--image", standin_image)
    code, err = client.end()
    report = client.report
    assert code == report["exit_code"], err
    assert "image given by hand" in report["not_real"]
    assert {"key": "image", "value": standin_image} in [
        {"key": assumed["key"], "value": assumed["value"]} for assumed in report["assumptions"]
    ]
    checks = {check["rule"]: check for check in report["checks"]}
    assert checks["client totals equal the engine's"]["verdict"] == "kept", err
    compiled = checks["nothing was compiled or captured in the window"]
    assert compiled["measured"] == "none in the engine's log and none in its caches", err
    assert client.container["image_id"] == standin_image
    assert client.container["uid"] == USER_ID
    assert client.container["settings"]["cpuset-cpus"] not in {"", "all"}
    for page in (files.PAGE, files.MARKDOWN):
        text = (client.folder / page).read_text()
        assert standin_image in text
        assert "given by hand" in text
    assert DEFINITION in (client.folder / files.PAGE).read_text()
    provenance = json.loads((client.folder / files.ENVIRONMENT).read_bytes())["provenance"]
    assert provenance["pinned"]["image_digest"] == standin_image
    assert provenance["pinned"]["lock_sha256"] is None
    assert client.verified()
    assert client.containers(docker_client) == []
    with pytest.raises(NotFound):
        left_over.reload()


def test_a_killed_container_leaves_an_honest_report_without_secrets(
    start: Start, docker_client: docker.DockerClient, standin_image: str
) -> None:
    client = start(LONG, "--image", standin_image)
    client.until_recorded(10)
    (container,) = client.containers(docker_client)
    assert str(container.name).startswith("streamproof-cpu-")
    variables = dict(variable.partition("=")[::2] for variable in container.attrs["Config"]["Env"])
    container.kill()
    code, _ = client.end()
    assert code == 1
    report = client.report
    assert report["partial"] is True
    assert "it was killed by SIGKILL" in report["partial_reason"]
    assert report["points"][0]["requests"] + report["points"][0]["ramp_requests"] >= 10
    assert client.verified()
    assert client.containers(docker_client) == []
    key = variables["VLLM_API_KEY"]
    assert len(key) > 30
    assert "HF_TOKEN" not in variables  # the weights are a folder: no hub is asked
    for path in client.folder.iterdir():
        assert key.encode() not in path.read_bytes(), path.name
        assert TOKEN.encode() not in path.read_bytes(), path.name


def test_ctrl_c_leaves_no_container(start: Start, docker_client: docker.DockerClient, standin_image: str) -> None:
    client = start(LONG, "--image", standin_image)
    client.until_recorded(5)
    assert len(client.containers(docker_client)) == 1
    client.process.send_signal(signal.SIGINT)
    code, _ = client.end()
    assert code == 130
    assert "SIGINT" in client.report["partial_reason"]
    assert client.containers(docker_client) == []


def test_a_client_that_is_killed_leaves_no_container(
    start: Start, docker_client: docker.DockerClient, standin_image: str
) -> None:
    client = start(LONG, "--image", standin_image)
    client.until_recorded(5)
    assert len(client.containers(docker_client)) == 1
    family = psutil.Process(client.process.pid).children(recursive=True)
    watchers = [one for one in family if "bench.engine.docker_guard" in " ".join(one.cmdline())]
    assert len(watchers) == 1
    client.process.kill()
    client.process.communicate()
    _, alive = psutil.wait_procs(family, timeout=60)
    assert alive == []
    assert client.containers(docker_client) == []


@pytest.mark.alone
@pytest.mark.engine
def test_the_real_engine_in_its_image(
    start: Start, docker_client: docker.DockerClient, serve_cpu_image: BuiltImage, debian_base: Base
) -> None:
    short = {"load.ladder": "[{streams = 2}]", "load.ramp_s": "2", "load.steady_s": "6"}
    client = start(short, "--engine", "docker", "--image", serve_cpu_image.reference)
    code, err = client.end()
    report = client.report
    assert code == report["exit_code"], err
    assert {"image given by hand", "base image replaced"} <= set(report["not_real"])
    checks = {check["rule"]: check for check in report["checks"]}
    for rule in ("client totals equal the engine's", "prefix hits are as predicted", "no request was preempted"):
        assert checks[rule]["verdict"] == "kept", (checks[rule], err)
    (point,) = report["points"]
    assert point["complete"]
    assert point["failures"] == {}
    container = client.container
    assert container["image_id"] == serve_cpu_image.id
    assert container["base_digest"] == debian_base.digest
    assert container["labels"][DEFINITION] == serve_cpu_image.definition_sha256
    assert container["uid"] == USER_ID
    page = (client.folder / files.PAGE).read_text()
    for fact in (serve_cpu_image.id, debian_base.digest, serve_cpu_image.definition_sha256):
        assert fact in page
    assert client.verified()
    assert client.containers(docker_client) == []


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--engine", "docker"], 1, ["Docker is not", "--engine process", "just bundle TARGET"]),
        (["--engine", "podman"], 2, ["there is no such engine"]),
        (["--engine", "process", "--image", "x"], 2, ["--engine process has none"]),
        (["--engine", "docker", "--base-url", "http://127.0.0.1:9"], 2, ["--engine would start one"]),
        (["--image", "x", "--base-url", "http://127.0.0.1:9"], 2, ["--image would start one"]),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_started(
    tmp_path: Path, options: list[str], code: int, says: list[str]
) -> None:
    client = Client(tmp_path, SETTINGS, *options, host=f"unix://{tmp_path}/no-docker-here")
    returned, err = client.end()
    told = " ".join(err.split())
    assert returned == code, err
    for words in says:
        assert words in told
    assert "Traceback" not in err
    assert not client.reports.exists()


@pytest.mark.parametrize(
    ("image", "code", "says"),
    [
        ("streamproof/absent:1", 2, "there is no image streamproof/absent:1 on this host"),
        ("base", 2, "is no engine of ours: it has no label"),
    ],
)
def test_an_image_that_will_not_do(start: Start, debian_base: Base, image: str, code: int, says: str) -> None:
    client = start(SETTINGS, "--image", debian_base.reference if image == "base" else image)
    returned, err = client.end()
    assert returned == code
    assert says in " ".join(err.split())
    assert "Traceback" not in err
    assert not client.reports.exists()
