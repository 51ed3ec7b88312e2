"""What is asked before an image is built or an engine started, for the cards that cannot exist here."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from docker.models.images import Image

from bench import docker_run as module
from bench.docker_run import DockerRun
from bench.engine.docker import ContainerLaunch
from bench.engine.docker_container import CHECKPOINT
from bench.engine.docker_image import EngineImage
from bench.engine.pins import load_pins
from bench.errors import StreamproofError, UsageError
from bench.images.base import pinned_base
from bench.images.definition import image_definition, image_target
from bench.images.labels import BASE_DIGEST, DEFINITION, STAGE
from bench.observe.gpu import GpuDriver
from bench.plan import Host, RunPlan, Share, pins_of
from quantize.checkpoint import ResolvedCheckpoint
from recipes.load import load_recipe
from recipes.schema import Recipe
from tests.observe.machines import environment, gpu

H200 = load_recipe("h200-fp8")
PINNED = pinned_base(load_pins().image(load_pins().target("h200-fp8").base)).digest


def image(**labels: str) -> EngineImage:
    ours = {DEFINITION: "ab" * 32, STAGE: "serve-cuda", BASE_DIGEST: PINNED, **labels}
    config = {"User": "10001", "Entrypoint": ["serve"], "Env": ["CUDA_VERSION=13.0.2"], "Labels": ours}
    return EngineImage.of(Image(attrs={"Id": "sha256:11", "Config": config}), "mine")


@dataclass
class FakeClient:
    """A Docker Engine on a host with GPUs, as far as it is asked before an engine is started."""

    runtimes: tuple[str, ...] = ("runc", "nvidia")
    closed: bool = False
    said: list[str] = field(default_factory=list)

    def info(self) -> dict[str, Any]:
        return {"Runtimes": {name: {} for name in self.runtimes}}

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeClient]:
    found = FakeClient()
    monkeypatch.setattr(module, "connect", lambda **_: found)
    monkeypatch.setattr(module, "sweep", lambda *_, **__: 0)
    monkeypatch.setattr(module, "given_image", lambda *_, **__: image())
    monkeypatch.setattr(module, "prepare_volume", lambda *_, **__: "streamproof-caches-x")
    yield found
    assert found.closed


def host(driver: str = "580.159.03") -> Host:
    card = gpu(1)
    machine = environment(gpu(0), card).model_copy(update={"driver": GpuDriver(version=driver, cuda="13.0")})
    return Host(machine=machine, gpus=(card,), cores=None)


def start(recipe: Recipe = H200, *, given: str | None = "mine", driver: str = "580.159.03") -> DockerRun:
    return DockerRun(recipe, image=given, host=host(driver), say=lambda _: None, terminal=False)


def test_without_nvidias_toolkit_nothing_is_built(client: FakeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    client.runtimes = ("runc",)
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(StreamproofError) as caught:
        start()
    assert "nvidia-ctk" in caught.value.remedy
    assert "--engine process" in caught.value.remedy
    assert "just bundle TARGET" in caught.value.remedy


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize("given", ["mine", None])
def test_a_driver_that_is_too_old_is_refused_before_the_image_is_there(given: str | None) -> None:
    with pytest.raises(StreamproofError, match=r"driver 560\.35\.05 is too old for CUDA 13\.0"):
        start(given=given, driver="560.35.05")


@pytest.mark.usefixtures("client")
def test_compatibility_libraries_on_a_new_driver_are_refused() -> None:
    recipe = load_recipe("h200-fp8", {"engine.env.VLLM_ENABLE_CUDA_COMPATIBILITY": '"1"'})
    with pytest.raises(StreamproofError, match="error 803"):
        start(recipe)


@pytest.mark.usefixtures("client")
def test_an_image_for_the_cpu_does_not_serve_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "given_image", lambda *_, **__: image(**{STAGE: "serve-cpu"}))
    with pytest.raises(UsageError, match="was made as serve-cpu; h200-fp8 needs serve-cuda"):
        start()


def plan_of(recipe: Recipe, digest: str) -> RunPlan:
    local = recipe.checkpoint.kind != "hub"
    checkpoint = ResolvedCheckpoint(
        model="/weights" if local else recipe.checkpoint.name, tokenizer=Path("/"), revision=None, sha256=None
    )
    return RunPlan(recipe=recipe, checkpoint=checkpoint, pinned=pins_of(recipe, None, digest))


def launch_of(run: DockerRun, recipe: Recipe) -> ContainerLaunch:
    plan = plan_of(recipe, run.digest)
    engine = run.engine(0, plan=plan, folder=Path("/r/t/0"), clock=time.monotonic, on_progress=lambda _: None)
    return engine._launch


@pytest.mark.usefixtures("client")
def test_a_hub_is_asked_with_the_users_token_and_the_card_is_named_by_its_identity(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hunter2")
    with start() as run:
        run.prepare()
        launch = launch_of(run, H200)
    assert run.digest == "sha256:11"
    assert (launch.checkpoint, launch.tokens["HF_TOKEN"]) == (None, "hunter2")
    assert launch.gpus == ["GPU-00000001"]
    assert launch.cores is None
    assert launch.env["VLLM_NO_USAGE_STATS"] == "1"
    arguments = list(launch.arguments("0.0.0.0", 8000))  # noqa: S104  inside the container
    assert arguments[:2] == ["--model", H200.checkpoint.name]
    assert "hunter2" not in repr(launch)
    assert (launch.given, launch.base_replaced) == (True, False)


@pytest.mark.usefixtures("client")
def test_what_the_gpus_may_use_between_them_reaches_the_container_and_the_hosts_interfaces_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "0")
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "enp1s0")
    with start() as run:
        run.prepare()
        env = launch_of(run, H200).env
    assert env["NCCL_NVLS_ENABLE"] == "0"
    assert "NCCL_SOCKET_IFNAME" not in env


@pytest.mark.usefixtures("client")
def test_weights_in_a_folder_need_no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hunter2")
    recipe = load_recipe("h200-fp8-dummy")
    with start(recipe) as run:
        launch = launch_of(run, recipe)
    assert (launch.checkpoint, launch.tokens) == (Path("/weights"), {})
    assert list(launch.arguments("0.0.0.0", 8000))[:2] == ["--model", CHECKPOINT]  # noqa: S104  inside the container


@pytest.mark.usefixtures("client")
def test_a_replica_has_its_own_card_and_log() -> None:
    recipe = load_recipe("h200-fp8-x2-dummy")
    share = Share(replica=1, host=replace(host(), gpus=(gpu(0),), cores={3}))
    with start(recipe) as run:
        engine = run.engine(
            2,
            plan=plan_of(recipe, run.digest),
            folder=Path("/r/t/0"),
            clock=time.monotonic,
            on_progress=lambda _: None,
            share=share,
        )
    launch = engine._launch
    assert (launch.gpus, launch.cores, launch.log) == (["GPU-00000000"], {3}, Path("/r/t/0/engine-2-replica-1.log"))


@pytest.mark.usefixtures("client")
def test_another_base_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "given_image", lambda *_, **__: image(**{BASE_DIGEST: "sha256:" + "0" * 64}))
    with start() as run:
        assert launch_of(run, H200).base_replaced


@pytest.mark.usefixtures("client")
def test_the_targets_own_image_is_known_by_its_definition_before_it_is_built() -> None:
    with start(given=None) as run:
        assert run.digest == image_definition(image_target(H200)).sha256
