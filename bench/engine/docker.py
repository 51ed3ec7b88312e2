"""An engine in a container of ours: made, started, watched, removed. One object is one start.

How it is set up is in `bench.engine.docker_container`; that nothing is left of it, in `bench.engine.docker_guard`.

Docker publishes a loopback port through a process of its own, which adds 0.03 ms to each exchange (measured, 300 bytes,
2 cores): nothing beside the budget, and it keeps the engine off every other address of the host.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from docker.errors import APIError

from bench.engine.caches import cache_environment
from bench.engine.compile_cache import named_caches
from bench.engine.docker_caches import is_cold
from bench.engine.docker_compiled import FoldersInside
from bench.engine.docker_container import Setup, create_options, described
from bench.engine.docker_errors import DOCKER_ERRORS, explained
from bench.engine.docker_owner import LABEL, Owner
from bench.engine.docker_watch import WatchedContainer, remove
from bench.engine.own import HOST, Begun, OwnEngine, Start
from bench.images.layout import CACHES, PORT
from bench.observe.observations import ContainerFacts

if TYPE_CHECKING:
    import docker
    from docker.models.containers import Container

    from bench.engine.base import Clock, OnProgress
    from bench.engine.docker_image import EngineImage

API_KEY: Final = "VLLM_API_KEY"
"""Environment variable that vLLM takes a key from; its option would show it on the command line."""

_EVERYWHERE: Final = "0.0.0.0"  # noqa: S104  inside the container; only its loopback is published
_KEY_BYTES: Final = 32
_OURS: Final = {"PYTHONUNBUFFERED": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
"""Its log must not lag behind what it does; its GPUs are counted as the driver counts them."""

_NOWHERE: Final = 0
"""A port that nobody can listen on."""


@dataclass(frozen=True, kw_only=True)
class ContainerLaunch:
    """What to start.

    Attributes:
        client: of the Docker Engine.
        image: that runs.
        arguments: gives the engine's arguments for the address and the port that it shall listen on.
        model: the name that it will serve under.
        env: environment variables of the recipe.
        tokens: variables that let it into a hub; never shown.
        checkpoint: folder on this host with the weights, which `arguments` names as
            `bench.engine.docker_container.CHECKPOINT`; None where the engine downloads them.
        caches: name of the volume that it keeps compiled code in.
        gpus: UUIDs of the GPUs that it may use.
        cores: of this host that it may use; None for all.
        given: the image was given by hand.
        base_replaced: the image is built on another base than the pinned one.
        log: file that its output is appended to.
        ready_timeout_s: a start that takes longer has failed.
    """

    client: docker.DockerClient
    image: EngineImage
    arguments: Callable[[str, int], Sequence[str]]
    model: str
    env: Mapping[str, str]
    tokens: Mapping[str, str] = field(repr=False)
    checkpoint: Path | None
    caches: str
    gpus: Sequence[str]
    cores: set[int] | None
    given: bool
    base_replaced: bool
    log: Path
    ready_timeout_s: float


class DockerEngine(OwnEngine):
    """An engine in a container of ours.

    Args:
        launch: what to start.
        run: index of the engine start.
        clock: the run's clock.
        on_progress: hears how far the start is.
    """

    def __init__(
        self, launch: ContainerLaunch, *, run: int, clock: Clock, on_progress: OnProgress | None = None
    ) -> None:
        start = Start(model=launch.model, log=launch.log, ready_timeout_s=launch.ready_timeout_s, run=run, clock=clock)
        super().__init__(start, on_progress)
        self._launch = launch

    def _begin(self) -> Begun:
        launch = self._launch
        key = secrets.token_urlsafe(_KEY_BYTES)
        setup = Setup(
            name=f"streamproof-{launch.model}-{secrets.token_hex(4)}",
            image=launch.image,
            arguments=launch.arguments(_EVERYWHERE, PORT),
            environment={**_OURS, **cache_environment(Path(CACHES)), **launch.env},
            secrets={**launch.tokens, API_KEY: key},
            checkpoint=launch.checkpoint,
            caches=launch.caches,
            gpus=launch.gpus,
            cores=launch.cores,
            labels={LABEL: str(Owner.this())},
        )
        try:
            container = launch.client.containers.create(**create_options(setup))
        except DOCKER_ERRORS as error:
            raise explained(error, "make the engine's container") from error
        try:
            cold = is_cold(container)
            body = WatchedContainer(container, launch.log)
        except DOCKER_ERRORS as error:
            remove(container)
            raise explained(error, "look into the engine's container") from error
        except BaseException:
            remove(container)
            raise
        try:
            return Begun(
                body=body,
                base_url=f"http://{HOST}:{_published_port(container)}",
                api_key=key,
                compiled=FoldersInside(
                    launch.client, str(container.id), launch.caches, named_caches(setup.environment)
                ),
                kind="docker",
                argv=(*launch.image.entrypoint, *setup.arguments),
                packages_sha256=None,
                cold=cold,
                container=self._facts(container, setup),
            )
        except DOCKER_ERRORS as error:
            body.stop()
            raise explained(error, "tell of the engine's container") from error
        except BaseException:
            body.stop()
            raise

    def _facts(self, container: Container, setup: Setup) -> ContainerFacts:
        launch, image = self._launch, self._launch.image
        return ContainerFacts(
            image_id=image.id,
            image_name=image.name,
            repo_digests=image.repo_digests,
            labels=image.told_labels,
            base_digest=image.base_digest,
            given=launch.given,
            base_replaced=launch.base_replaced,
            uid=_uid(container),
            settings=described(setup),
            docker=str(launch.client.version().get("Version", "")),
        )


def _published_port(container: Container) -> int:
    """The port of this host that Docker chose; nowhere, once the container has ended."""
    container.reload()
    bindings = container.attrs["NetworkSettings"]["Ports"].get(f"{PORT}/tcp")
    return int(bindings[0]["HostPort"]) if bindings else _NOWHERE


def _uid(container: Container) -> int | None:
    """Of its first process, as the kernel says it; None where it has ended already."""
    try:
        processes = container.top(ps_args="-eo uid,pid")["Processes"] or ()
    except APIError:
        return None
    return int(processes[0][0]) if processes else None
