"""The manifests: against the API's schemas, and object by object against what the recipe says."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]  # it has neither types nor stubs
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.deploy.asked import Asked
from bench.deploy.kubernetes import CLIENT_PYTHON, Cluster, manifests
from bench.engine.caches import cache_environment
from bench.engine.pins import REPOSITORY, load_pins
from bench.errors import UsageError
from bench.images.layout import CACHES, USER_ID
from recipes.command import engine_arguments
from recipes.load import load_recipe, targets
from tests.deploy.hostile import CLIENT, asked, expanded, texts
from tests.images.dockerfile_rules import parse

VERSIONS = ["1.29", "1.33", "1.37"]
RECIPES = {target: load_recipe(target) for target in targets()}
GPU_TARGETS = [target for target, of in RECIPES.items() if of.hardware.kind == "gpu" and of.replicas == 1]
CLUSTER = Cluster(client=CLIENT)


def objects(one: Asked, cluster: Cluster = CLUSTER) -> dict[str, dict[str, Any]]:
    """Every object, by "Kind/name"."""
    texts_of = manifests(one, cluster).values()
    found = [document for text in texts_of for document in yaml.safe_load_all(text)]
    named = {f"{one['kind']}/{one['metadata']['name']}": one for one in found}
    assert len(named) == len(found)
    return named


def engine_of(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    (pod,) = (one["spec"]["template"]["spec"] for one in found.values() if one["kind"] == "Deployment")
    container: dict[str, Any] = pod["containers"][0]
    return container


def pods(found: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        one["spec"] if one["kind"] == "Pod" else one["spec"]["template"]["spec"]
        for one in found.values()
        if one["kind"] in {"Pod", "Job", "Deployment"}
    ]


def variables(container: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["value"] for one in container["env"] if "value" in one}


@pytest.mark.parametrize("engine_only", [False, True])
def test_replicas_are_refused(*, engine_only: bool) -> None:
    with pytest.raises(UsageError, match="has 2 replicas") as caught:
        manifests(asked("h200-fp8-x2-dummy"), replace(CLUSTER, engine_only=engine_only))
    assert "--as slurm and --as skypilot run all replicas on one host" in caught.value.remedy


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("target", GPU_TARGETS)
def test_the_api_of_several_releases_takes_every_object(target: str, version: str) -> None:
    for name, one in objects(asked(target)).items():
        assert kubernetes_validate.validate(one, version, strict=True) == version, name


def test_the_schemas_are_asked_in_earnest() -> None:
    found = objects(asked())["Deployment/streamproof-h200-fp8-dummy"]
    found["spec"]["template"]["spec"]["containers"][0]["startupProbe"]["failureTreshold"] = 3
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(found, VERSIONS[-1], strict=True)


@pytest.mark.parametrize("target", GPU_TARGETS)
def test_the_engine_is_the_recipes(target: str) -> None:
    one = asked(target)
    recipe = one.recipe
    found = objects(one)
    engine = engine_of(found)
    pin = load_pins().image("vllm-openai")
    assert engine["image"] == f"{pin.reference}@{pin.linux_amd64}"
    assert engine["command"] == ["python3", "-m", load_pins().engine(recipe.engine.lock).module]
    model = recipe.checkpoint.name if recipe.checkpoint.kind == "hub" else "/checkpoint"
    assert engine["args"] == engine_arguments(recipe, model=model, host="0.0.0.0", port=8000)  # noqa: S104  as rendered
    assert engine["resources"] == {"limits": {"nvidia.com/gpu": str(recipe.hardware.count)}}
    wanted = {**cache_environment(Path(CACHES)), **recipe.engine.env, "HF_HUB_OFFLINE": "1"}
    assert variables(engine).items() >= wanted.items()
    pod = pods(found)[0]
    assert pod["nodeSelector"] == {"nvidia.com/gpu.product": f"NVIDIA-{recipe.hardware.gpu}"}
    startup = engine["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] == recipe.engine.ready_timeout_s
    assert all(engine[probe]["httpGet"]["path"] == "/health" for probe in ("readinessProbe", "livenessProbe"))
    mounts = {mount["mountPath"]: mount["name"] for mount in engine["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert volumes[mounts["/dev/shm"]]["emptyDir"]["medium"] == "Memory"  # noqa: S108  inside the pod
    assert volumes[mounts[CACHES]]["persistentVolumeClaim"]["claimName"].startswith(f"streamproof-{target}-caches-")


def test_two_cards_are_two() -> None:
    one = asked()
    hardware = one.recipe.hardware.model_copy(update={"count": 2})
    two = Asked(recipe=one.recipe.model_copy(update={"hardware": hardware}), target=one.target)
    assert engine_of(objects(two))["resources"]["limits"] == {"nvidia.com/gpu": "2"}


@pytest.mark.parametrize("target", GPU_TARGETS)
def test_every_volume_that_is_mounted_is_there(target: str) -> None:
    found = objects(asked(target))
    for pod in pods(found):
        volumes = {volume["name"] for volume in pod["volumes"]}
        containers = [*pod["containers"], *pod.get("initContainers", [])]
        mounted = {mount["name"] for one in containers for mount in one["volumeMounts"]}
        assert mounted == volumes
        for volume in pod["volumes"]:
            claim = volume.get("persistentVolumeClaim", {}).get("claimName")
            # The claim with a quantized checkpoint is the user's to fill.
            assert claim is None or claim.endswith("-checkpoint") or f"PersistentVolumeClaim/{claim}" in found
            config = volume.get("configMap", {}).get("name")
            assert config is None or f"ConfigMap/{config}" in found


@pytest.mark.parametrize("target", GPU_TARGETS)
def test_nothing_has_a_privilege_and_nothing_secret_is_told(target: str) -> None:
    found = objects(asked(target))
    assert not any(one["kind"] == "Secret" for one in found.values())
    for pod in pods(found):
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False
        assert {key: pod["securityContext"][key] for key in ("runAsNonRoot", "runAsUser", "seccompProfile")} == {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert "hostNetwork" not in pod
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert "@sha256:" in container["image"]
            secret = {one["name"] for one in container.get("env", []) if "valueFrom" in one}
            assert secret <= {"VLLM_API_KEY", "STREAMPROOF_API_KEY", "HF_TOKEN"}
            assert not secret & variables({"env": container.get("env", [])}).keys()


def test_a_hub_checkpoint_is_fetched_by_a_container_of_its_own_and_only_that_one_has_a_token() -> None:
    found = objects(asked("h200-fp8"))
    pod = pods(found)[0]
    (download,) = pod["initContainers"]
    assert download["command"] == ["hf", "download"]
    recipe = load_recipe("h200-fp8")
    assert download["args"] == ["--revision", recipe.checkpoint.revision, "--", recipe.checkpoint.name]
    assert download["volumeMounts"][0] == {"name": "home", "mountPath": variables(engine_of(found))["HOME"]}
    names = [one["name"] for one in pod["containers"][0]["env"]]
    assert "HF_TOKEN" not in names
    assert names.count("VLLM_API_KEY") == 1


def test_a_dummy_checkpoint_is_in_the_manifest() -> None:
    one = asked("h200-fp8-dummy")
    found = objects(one)
    carried = found["ConfigMap/streamproof-h200-fp8-dummy-checkpoint"]["data"]
    assert carried == {"config.json": (REPOSITORY / one.recipe.checkpoint.name / "config.json").read_text()}
    assert "initContainers" not in pods(found)[0]


def test_a_quantized_checkpoint_is_a_claim_of_the_engine_and_of_the_client() -> None:
    found = objects(asked("b200-nvfp4"))
    engine, client, _ = pods(found)
    for pod, path in ((engine, "/checkpoint"), (client, "/opt/streamproof/source/checkpoints/Qwen3.5-35B-A3B-NVFP4")):
        mounts = {mount["name"]: mount for mount in pod["containers"][0]["volumeMounts"]}
        assert mounts["checkpoint"] == {"name": "checkpoint", "mountPath": path, "readOnly": True}
        (volume,) = (volume for volume in pod["volumes"] if volume["name"] == "checkpoint")
        assert volume["persistentVolumeClaim"] == {"claimName": "streamproof-b200-nvfp4-checkpoint", "readOnly": True}


def test_only_the_client_reaches_the_engine() -> None:
    found = objects(asked())
    policy = found["NetworkPolicy/streamproof-h200-fp8-dummy"]["spec"]
    engine = found["Deployment/streamproof-h200-fp8-dummy"]["spec"]["template"]["metadata"]["labels"]
    client = found["Job/streamproof-h200-fp8-dummy-client"]["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"] == engine
    assert policy["policyTypes"] == ["Ingress"]
    (rule,) = policy["ingress"]
    assert rule["from"] == [{"podSelector": {"matchLabels": client}}]
    service = found["Service/streamproof-h200-fp8-dummy"]["spec"]
    assert service["selector"] == engine
    assert service["type"] == "ClusterIP"


def test_the_clients_image_starts_what_the_job_starts() -> None:
    stages = {stage.name: stage for stage in parse((REPOSITORY / "Dockerfile").read_text())}
    assert f'["{CLIENT_PYTHON}", "-m", "bench"]' == stages["bench"].last("ENTRYPOINT")
    source = load_pins().target("bench").source
    assert {"bench", "docker", "recipes", "quantize"} <= set(source)


def test_the_job_ends_once_and_not_before_the_ladder() -> None:
    one = asked("h200-fp8")
    job = objects(one)["Job/streamproof-h200-fp8-client"]["spec"]
    assert job["backoffLimit"] == 0
    assert job["template"]["spec"]["restartPolicy"] == "Never"
    waits = int(job["template"]["spec"]["initContainers"][0]["args"][2])
    assert waits == 3600 + one.recipe.engine.ready_timeout_s
    # Four points of 20 s ramp, 120 s window and 60 s drain; one run, since the server is not the client's.
    assert job["activeDeadlineSeconds"] == waits + 600 + 4 * 200


def test_other_flags_or_another_image_have_other_caches() -> None:
    def caches(one: Asked, cluster: Cluster = CLUSTER) -> str:
        return next(name for name in objects(one, cluster) if "-caches-" in name)

    assert caches(asked()) == caches(asked(title="other words"))
    own = Cluster(client=CLIENT, image="registry.example/h200@sha256:" + "b" * 64)
    assert len({caches(asked()), caches(asked(flags={"max_num_seqs": 8})), caches(asked(), own)}) == 3


def test_without_a_client_there_is_only_the_engine() -> None:
    assert list(manifests(asked(), Cluster(engine_only=True))) == ["engine.yaml"]
    assert list(manifests(asked(), CLUSTER)) == ["engine.yaml", "client.yaml", "reports.yaml"]


def test_a_recipe_of_ones_own_goes_with_the_job_and_so_does_what_it_extends(tmp_path: Path) -> None:
    source = '\n[sources]\n"load.steady_s" = { kind = "assumption", why = "$(id) \\"quoted\\"" }\n'
    (tmp_path / "below.toml").write_text('extends = "h200-fp8-dummy"\n[load]\nsteady_s = 30.0\n' + source)
    mine = tmp_path / "mine.v2.toml"
    mine.write_text('extends = "below"\ntitle = "mine"\n')
    one = Asked(recipe=load_recipe(str(mine)), target=str(mine))
    found = objects(one)
    job = found[
        "Job/streamproof-" + next(iter(found)).removeprefix("ConfigMap/streamproof-").replace("-checkpoint", "-client")
    ]
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert container["args"][:2] == ["repro", "/recipe/mine.v2.toml"]
    (carried,) = (one["data"] for name, one in found.items() if name.endswith("-recipe"))
    again = tmp_path / "in the pod"
    again.mkdir()
    for name, text in carried.items():
        (again / name).write_text(text)
    assert load_recipe(str(again / "mine.v2.toml")) == one.recipe


def test_names_and_labels_are_what_the_api_server_takes_and_differ_where_targets_do() -> None:
    """Beyond the schemas: RFC 1035 names and label values of 63 characters."""
    one = asked()
    services = set()
    wanted = ("a.b", "a-b", "a-b.", "1.5", "a" * 64, "a" * 63, "x" * 40)
    for target in wanted:
        found = objects(Asked(recipe=one.recipe.model_copy(update={"target": target}), target=one.target))
        services |= {name for name in found if name.startswith("Service/")}
        for name, thing in found.items():
            assert re.fullmatch(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", name.partition("/")[2]), name
            for value in thing["metadata"]["labels"].values():
                assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", value), value
    assert len(services) == len(wanted)
    assert "Service/streamproof-a-b" in services


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        ({"engine.env.VLLM_API_KEY": "hunter2"}, "takes its key from a Secret"),
        ({"checkpoint.kind": "bundled", "checkpoint.name": "../../etc"}, "cannot be carried"),
        ({"checkpoint.kind": "bundled", "checkpoint.name": "/models/x:ro"}, "cannot be carried"),
        ({"checkpoint.kind": "dummy", "checkpoint.name": "quantize/nowhere"}, "is not there"),
        ({"checkpoint.kind": "dummy", "checkpoint.name": "quantize/toy/checkpoint"}, "more than text files"),
        ({"hardware.gpu": "$(id)"}, "can be no node's label"),
        ({"engine.ready_timeout_s": "1e300"}, "more than any scheduler allows"),
        ({"engine.image": "nobody"}, "no image"),
        ({"load.ladder": '[{trace = "calls.jsonl"}]'}, "replays a trace"),
    ],
)
def test_what_a_cluster_cannot_run_is_refused(overrides: dict[str, str], says: str) -> None:
    one = Asked(recipe=load_recipe("h200-fp8", overrides), target="h200-fp8", overrides=overrides)
    with pytest.raises(UsageError, match=says) as error:
        manifests(one, CLUSTER)
    assert error.value.remedy


def test_a_recipe_without_a_published_image_has_no_digest() -> None:
    one = asked()
    engine = one.recipe.engine.model_copy(update={"image": None})
    nameless = Asked(recipe=one.recipe.model_copy(update={"engine": engine}), target=one.target)
    with pytest.raises(UsageError, match="no digest that a cluster could pull") as error:
        manifests(nameless, CLUSTER)
    assert "--image" in error.value.remedy
    own = "registry.example/h200@sha256:" + "b" * 64
    assert engine_of(objects(nameless, Cluster(client=CLIENT, image=own)))["image"] == own


@settings(max_examples=40)
@given(
    title=texts,
    flag=texts,
    nested=st.dictionaries(texts, texts, max_size=2),
    variable=texts,
    overrides=st.dictionaries(texts, texts, max_size=2),
)
def test_a_hostile_recipe_changes_no_more_than_its_own_values(
    title: str, flag: str, nested: dict[str, str], variable: str, overrides: dict[str, str]
) -> None:
    one = asked(
        title=title, flags={"tokenizer": flag, "hf_overrides": nested}, env={"EVIL": variable}, overrides=overrides
    )
    found, plain = objects(one), objects(asked())
    assert [name.partition("-caches-")[0] for name in found] == [name.partition("-caches-")[0] for name in plain]
    engine = engine_of(found)
    cluster = {**variables(engine), "VLLM_API_KEY": "secret", "STREAMPROOF_API_KEY": "secret"}
    arguments = engine_arguments(one.recipe, model="/checkpoint", host="0.0.0.0", port=8000)  # noqa: S104  as rendered
    assert [expanded(word, cluster) for word in engine["args"]] == arguments
    assert expanded(variables(engine)["EVIL"], cluster) == variable
    client = pods(found)[1]["containers"][0]
    sets = [word for key, value in overrides.items() for word in ("--set", f"{key}={value}")]
    assert [expanded(word, cluster) for word in client["args"]][2 : 2 + len(sets)] == sets
    assert all(text.isascii() for text in manifests(one, CLUSTER).values())
