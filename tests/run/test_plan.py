"""Which engine answers, and which fingerprint a run will have, before anything is started."""

from __future__ import annotations

import pytest

from bench import plan
from bench.bundle.installed import InstalledBundle
from bench.engine.pins import REPOSITORY
from bench.errors import UsageError
from bench.images.definition import image_definition
from bench.plan import Host, engine_kind, fingerprints_for_show, pins_of, plan_run
from recipes.load import load_recipe, targets
from tests.observe.machines import environment, gpu

GPU, CPU = load_recipe("h200-fp8"), load_recipe("cpu")


def kind(recipe: object = GPU, **wishes: str | None) -> str:
    asked = {"asked": None, "image": None, "base_url": None, **wishes}
    return engine_kind(recipe, **asked)  # type: ignore[arg-type]  # recipes only; the wishes' types are checked


def test_by_itself_a_gpu_target_runs_in_its_image_and_the_cpu_as_a_process() -> None:
    assert kind(GPU) == "docker"
    assert kind(CPU) == "process"
    without = GPU.model_copy(update={"engine": GPU.engine.model_copy(update={"image": None})})
    assert kind(without) == "process"


def test_every_gpu_target_names_an_image() -> None:
    for recipe in map(load_recipe, targets()):
        assert (recipe.engine.image is not None) == (recipe.hardware.kind == "gpu"), recipe.target


def test_what_is_asked_for_counts() -> None:
    assert kind(GPU, asked="process") == "process"
    assert kind(CPU, asked="docker") == "docker"
    assert kind(CPU, image="streamproof/cpu:1") == "docker"
    assert kind(GPU, base_url="http://127.0.0.1:8000") == "external"


@pytest.mark.parametrize(
    ("wishes", "message"),
    [
        ({"base_url": "http://x:1", "asked": "docker"}, "--engine would start one"),
        ({"base_url": "http://x:1", "image": "x"}, "--image would start one"),
        ({"asked": "process", "image": "x"}, "--engine process has none"),
        ({"asked": "podman"}, "--engine podman: there is no such engine"),
    ],
)
def test_wishes_that_contradict_each_other(wishes: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        kind(**wishes)


def test_replicas_have_no_one_address() -> None:
    with pytest.raises(UsageError, match="has 2 replicas") as caught:
        kind(load_recipe("h200-fp8-x2-dummy"), base_url="http://127.0.0.1:8000")
    assert "Leave --base-url out" in caught.value.remedy


def test_each_replica_has_its_share_of_the_host() -> None:
    cards = tuple(gpu(number) for number in range(4))
    host = Host(machine=environment(*cards), gpus=cards, cores=None)
    one, two = host.shares(2)
    assert (one.replica, one.host.gpus, two.replica, two.host.gpus) == (0, cards[:2], 1, cards[2:])
    assert one.host.cores is None
    assert one.host.machine is host.machine
    on_the_cpu = Host(machine=environment(), gpus=(), cores={0, 1, 2, 3})
    assert [(share.host.gpus, share.host.cores) for share in on_the_cpu.shares(2)] == [((), {0, 1}), ((), {2, 3})]


@pytest.mark.parametrize(("image", "engine"), [(None, "process"), ("streamproof/h200-fp8:1", "docker")])
def test_an_installed_bundle_runs_what_it_brought(
    image: str | None, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = InstalledBundle(root=REPOSITORY, target="h200-fp8", commit="0" * 40, signer="s", image=image)
    monkeypatch.setattr(plan, "installed_bundle", lambda: bundle)
    assert kind(GPU) == engine


def test_an_image_takes_the_place_of_the_lock_in_the_fingerprint() -> None:
    process, container = pins_of(CPU, "c" * 64), pins_of(CPU, "c" * 64, "ab" * 32)
    assert (process.image_digest, process.lock_sha256 is None) == (None, False)
    assert (container.image_digest, container.lock_sha256) == ("ab" * 32, None)
    assert process.checkpoint_sha256 == container.checkpoint_sha256
    external = plan_run(CPU, external=True).pinned
    assert (external.image_digest, external.lock_sha256, external.checkpoint_sha256) == (None, None, None)


def test_both_fingerprints_are_shown_and_are_those_of_the_runs() -> None:
    process, container = fingerprints_for_show(CPU)
    assert (process.engine, container.engine) == ("process", "docker")
    assert process.fingerprint == plan_run(CPU).fingerprint
    digest = image_definition("cpu").sha256
    assert container.fingerprint == plan_run(CPU, image_digest=digest).fingerprint
    assert process.missing == container.missing == ""
    first, second = fingerprints_for_show(GPU)
    assert (first.engine, second.engine) == ("docker", "process")
    assert first.missing == second.missing == ""
    unpinned = GPU.model_copy(update={"checkpoint": GPU.checkpoint.model_copy(update={"revision": None})})
    assert [shown.missing for shown in fingerprints_for_show(unpinned)] == [
        "the checkpoint's commit, which the run resolves"
    ] * 2
    unknown = GPU.model_copy(update={"hardware": GPU.hardware.model_copy(update={"gpu": "H100"})})
    assert [shown.engine for shown in fingerprints_for_show(unknown)] == ["process"]
