"""Kubernetes manifests: the engine as Deployment and Service, the client as Job, and a pod that hands reports out.

The engine's container is set up as `bench.engine.docker_container` does on one host: the same command line, variables,
paths, user and limits, as far as Kubernetes can say them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.deploy.gpus import PRODUCT_LABEL, product_label
from bench.deploy.images import client_image, engine_image
from bench.deploy.names import Names
from bench.deploy.templates import render
from bench.deploy.times import FINISH_S, ladder_s, whole_s
from bench.deploy.weights import check_fits, weights_of
from bench.engine.caches import cache_environment
from bench.engine.docker import API_KEY as ENGINE_KEY
from bench.engine.docker_container import CHECKPOINT, SHM_BYTES
from bench.engine.pins import load_pins
from bench.errors import UsageError
from bench.images.layout import CACHES, HOME, PORT, ROOT, USER_ID
from bench.repro import API_KEY as CLIENT_KEY
from recipes.command import engine_arguments

if TYPE_CHECKING:
    from bench.deploy.asked import Asked
    from bench.deploy.weights import Weights

CLIENT_PYTHON: Final = f"{ROOT}/env/bin/python"
"""Interpreter of the client's image (stage `bench` of the Dockerfile)."""

REPORTS: Final = "/reports"
"""Where the client's pod has the claim of its reports."""

RECIPE: Final = "/recipe"
"""Where the client's pod has a recipe that is not in its image."""

ARRIVAL_S: Final = 3600.0
"""For what comes before an engine's own start and no recipe knows: a node, 20 GB of image, 40 GB of weights."""

LOOK_EVERY_S: Final = 10
"""Seconds between two probes: too few to be seen in a measurement."""

_EVERYWHERE: Final = "0.0.0.0"  # noqa: S104  in the pod; the NetworkPolicy lets nobody but the client in
_ENGINE_ENV: Final = {
    "HOME": HOME,
    # The published image knows no user of that number, and Python asks the environment first.
    "USER": "streamproof",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
}
_OFFLINE: Final = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """What the command line says of the cluster.

    Attributes:
        image: the engine's, instead of the one that the recipe names.
        client: image of the client, by digest; None only with `engine_only`.
        gpu_label: value of the nodes' label, where it is not that of the card's name.
        engine_only: leave the client out.
    """

    image: str | None = None
    client: str | None = None
    gpu_label: str | None = None
    engine_only: bool = False


def manifests(asked: Asked, cluster: Cluster) -> dict[str, str]:
    """The files, by name: "engine.yaml", and unless it is left out "client.yaml" and "reports.yaml".

    Args:
        asked: the recipe.
        cluster: where it shall run.

    Raises:
        UsageError: it cannot run there as the recipe says.
    """
    if asked.recipe.replicas > 1:
        raise UsageError(
            f"{asked.recipe.target} has {asked.recipe.replicas} replicas (engine.replicas), and a Service spreads "
            "connections over pods: a call would not stay at the replica that has its prefix cached.",
            remedy="--as slurm and --as skypilot run all replicas on one host. For Kubernetes deploy the recipe of one "
            "replica, once for each, behind a router that keeps a call where it is.",
        )
    names = Names.of(asked.recipe.target)
    weights = weights_of(asked.recipe.checkpoint)
    files = {"engine.yaml": _engine(asked, cluster, names, weights)}
    if not cluster.engine_only:
        image = client_image(cluster.client)
        files["client.yaml"] = _client(asked, image, names, weights)
        files["reports.yaml"] = render("kubernetes-reports.yaml.j2", **_common(asked, names), image=image)
    return files


def _engine(asked: Asked, cluster: Cluster, names: Names, weights: Weights) -> str:
    recipe = asked.recipe
    if ENGINE_KEY in recipe.engine.env:
        raise UsageError(
            f"engine.env.{ENGINE_KEY}: a cluster's engine takes its key from a Secret, and a recipe is public.",
            remedy="Leave it out of the recipe.",
        )
    image = engine_image(recipe, cluster.image)
    pin = load_pins().engine(recipe.engine.lock)
    arguments = engine_arguments(recipe, model=weights.model, host=_EVERYWHERE, port=PORT)
    # The download is another container's: with nothing to ask a hub for, the engine needs neither network nor token.
    environment = {**_ENGINE_ENV, **cache_environment(Path(CACHES)), **pin.env, **_OFFLINE, **recipe.engine.env}
    return render(
        "kubernetes-engine.yaml.j2",
        **_common(asked, names),
        image=image,
        command=["python3", "-m", pin.module],
        arguments=arguments,
        environment=environment,
        key_variable=ENGINE_KEY,
        weights=weights,
        gpu_label=PRODUCT_LABEL,
        gpu_product=product_label(recipe.hardware, cluster.gpu_label),
        gpus=recipe.hardware.count,
        caches=names.caches(image, arguments, environment),
        caches_path=CACHES,
        checkpoint_path=CHECKPOINT,
        shm=f"{SHM_BYTES >> 30}Gi",
        look_every_s=LOOK_EVERY_S,
        looks_until_ready=max(1, math.ceil(whole_s(recipe.engine.ready_timeout_s) / LOOK_EVERY_S)),
        progress_s=_ready_s(asked),
    )


def _client(asked: Asked, image: str, names: Names, weights: Weights) -> str:
    recipe_files = _recipe_files(asked)
    url = f"http://{names.engine}:{PORT}"
    target = f"{RECIPE}/{Path(asked.target).name}" if recipe_files else asked.target
    return render(
        "kubernetes-client.yaml.j2",
        **_common(asked, names),
        image=image,
        start=[CLIENT_PYTHON, "-m", "bench.deploy.client_start"],
        start_arguments=[url, "--timeout-s", str(_ready_s(asked)), "--key", "/signing/signer.key.pem"],
        command=[CLIENT_PYTHON, "-m", "bench"],
        arguments=asked.repro(target, "--base-url", url, "--reports", REPORTS),
        key_variable=CLIENT_KEY,
        weights=weights,
        checkpoint_path=f"{ROOT}/source/{weights.name}",
        recipe_files=recipe_files,
        recipe_path=RECIPE,
        deadline_s=whole_s(_ready_s(asked) + FINISH_S + ladder_s(asked.recipe)),
    )


def _common(asked: Asked, names: Names) -> dict[str, object]:
    """What every file says."""
    return {
        "title": asked.recipe.title,
        "target": asked.recipe.target,
        "version": version("streamproof"),
        "names": names,
        "user": USER_ID,
        "home": HOME,
        "port": PORT,
        "reports_path": REPORTS,
    }


def _ready_s(asked: Asked) -> int:
    """From nothing to an engine that answers, at most."""
    return whole_s(ARRIVAL_S + asked.recipe.engine.ready_timeout_s)


def _recipe_files(asked: Asked) -> dict[str, str]:
    """Those that the client's image does not have, by name.

    Raises:
        UsageError: they cannot be carried.
    """
    if any(point.trace is not None for point in asked.recipe.load.ladder):
        raise UsageError(
            "load.ladder replays a trace, which is a file of this machine and no part of the client's image.",
            remedy="Run that point from a host that has the file: streamproof repro TARGET --base-url ...",
        )
    files = {path.name: path.read_text(encoding="utf-8") for path in asked.own_files()}
    check_fits(files, what="the recipe")
    return files
