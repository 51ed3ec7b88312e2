"""What a run needs when its engine is a container, in the order of what things cost.

Cheap questions come first: is there a Docker Engine, can it give GPUs, does the driver fit, is the image that was named
here. Only then is an image built, which takes minutes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from bench.bundle.cache_volumes import prepare_volume
from bench.engine.caches import MadeWith, made_with
from bench.engine.child_env import fabric_variables
from bench.engine.docker import ContainerLaunch, DockerEngine
from bench.engine.docker_container import CHECKPOINT
from bench.engine.docker_host import connect, require_gpus, require_room
from bench.engine.docker_image import EngineImage, given_image, local_image
from bench.engine.docker_owner import sweep
from bench.engine.driver_rules import ENGINE_CUDA, check_driver, situation_of
from bench.engine.pins import load_pins
from bench.errors import UsageError
from bench.images.base import pinned_base
from bench.images.build import ensure_image
from bench.images.definition import image_definition, image_target
from bench.plan import Share
from bench.report import folder_files as files
from recipes.command import engine_arguments

if TYPE_CHECKING:
    from bench.engine.base import Clock, OnProgress
    from bench.engine.install import Say
    from bench.plan import Host, RunPlan
    from recipes.schema import Recipe

_OTHERWISE: Final = (
    "Or run without Docker: --engine process; a GPU host without network takes a bundle: just bundle TARGET."
)

_TOKENS: Final = frozenset(
    {
        *("HF_TOKEN", "HF_ENDPOINT"),
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
    }
)
"""Variables of the user that let an engine into a hub. A proxy's address may carry a password: all are kept secret."""


class DockerRun:
    """The Docker Engine, the image and the volume of one run. Use it in a `with` block.

    Args:
        recipe: resolved.
        image: given by hand, instead of the target's own.
        host: where it takes place.
        say: takes a line for each thing that takes time.
        terminal: standard error is a terminal that nobody else draws on.

    Raises:
        UsageError: the image that was given does not serve, or no image fits the recipe.
        StreamproofError: no Docker Engine here, it cannot give GPUs, the driver does not fit, or the image that was
            given cannot be had.
    """

    def __init__(self, recipe: Recipe, *, image: str | None, host: Host, say: Say, terminal: bool) -> None:
        self._recipe = recipe
        self._host = host
        self._say = say
        self._terminal = terminal
        self._client = connect(otherwise=_OTHERWISE)
        try:
            if host.gpus:
                require_gpus(self._client, otherwise=_OTHERWISE)
            require_room(self._client)
            sweep(self._client, say=say)
            self._given = image is not None
            self._image: EngineImage | None = None
            if image is None:
                self._target = image_target(recipe)
                self.digest = image_definition(self._target).sha256
                self._check_driver({"CUDA_VERSION": ENGINE_CUDA.get(recipe.engine.version, "")}, image_is_here=False)
            else:
                self._image = given_image(self._client, image, say=say)
                self.digest = self._image.id
                _check_stage(self._image, recipe)
                self._check_driver(self._image.env)
        except BaseException:
            self._client.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def prepare(self) -> None:
        """Have the image here, and build it if it is not; nothing of the run has been begun before.

        Raises:
            StreamproofError: it cannot be built; its own words say why.
        """
        if self._image is None:
            built = ensure_image(self._target, say=self._say, client=self._client, terminal=self._terminal)
            self._image = local_image(self._client, built.id)
            self._check_driver(self._image.env)

    def engine(  # noqa: PLR0913  everything that an engine start is
        self,
        number: int,
        *,
        plan: RunPlan,
        folder: Path,
        clock: Clock,
        on_progress: OnProgress,
        share: Share | None = None,
    ) -> DockerEngine:
        """The engine of one run; `prepare` came before.

        Args:
            number: index of the engine start.
            plan: of the run, with our `digest` in its pins.
            folder: of the report.
            clock: the run's clock.
            on_progress: hears how far the start is.
            share: which of several replicas it is, and where; None where there is one engine, with the whole host.

        Raises:
            StreamproofError: the volume of its caches cannot be used.
        """
        if self._image is None:
            raise RuntimeError("prepare() was not called")
        recipe, checkpoint = plan.recipe, plan.checkpoint
        local = recipe.checkpoint.kind != "hub"
        share = share or Share(replica=0, host=self._host)
        launch = ContainerLaunch(
            client=self._client,
            image=self._image,
            arguments=lambda host, port: engine_arguments(
                recipe, model=CHECKPOINT if local else checkpoint.model, host=host, port=port
            ),
            model=recipe.target,
            env={**_fabric(), **load_pins().engine(recipe.engine.lock).env, **recipe.engine.env},
            tokens={} if local else {name: os.environ[name] for name in _TOKENS & os.environ.keys()},
            checkpoint=Path(checkpoint.model) if local else None,
            caches=prepare_volume(
                self._client, self._made_with(plan, folder, share.host), image=self._image.id, say=self._say
            ),
            gpus=[gpu.uuid for gpu in share.host.gpus],
            cores=share.host.cores,
            given=self._given,
            base_replaced=self._base_replaced(self._image),
            log=folder / files.engine_log(number, share.replica),
            ready_timeout_s=recipe.engine.ready_timeout_s,
        )
        return DockerEngine(launch, run=number, clock=clock, on_progress=on_progress)

    def _made_with(self, plan: RunPlan, folder: Path, host: Host) -> MadeWith:
        return made_with(
            plan.recipe,
            fingerprint=plan.engine_fingerprint,
            engine="docker",
            machine=host.machine,
            gpus=host.gpus,
            packages=self.digest,
            run=f"{folder.parent.name}/{folder.name}",
        )

    def _check_driver(self, variables: Mapping[str, str], *, image_is_here: bool = True) -> None:
        driver = self._host.machine.driver
        if not self._host.gpus or driver is None:
            return
        cards = [gpu.name for gpu in self._host.gpus]
        situation = situation_of({**variables, **self._recipe.engine.env}, driver=driver.version, cards=cards)
        # Which branches the compatibility libraries bridge, only the image says.
        if situation is not None and (image_is_here or not situation.compatibility):
            check_driver(situation)

    def _base_replaced(self, image: EngineImage) -> bool:
        """Whether an image says that it was built on another base than the pinned one of this recipe's image."""
        try:
            pins = load_pins()
            pinned = pinned_base(pins.image(pins.target(image_target(self._recipe)).base))
        except UsageError:
            return False
        return image.base_digest not in {None, pinned.digest}


def _fabric() -> dict[str, str]:
    """What the GPUs of this host may use between them; the host's network interfaces are none of a container's."""
    return {name: value for name, value in fabric_variables().items() if not name.endswith("_IFNAME")}


def _check_stage(image: EngineImage, recipe: Recipe) -> None:
    wanted = "serve-cpu" if recipe.hardware.kind == "cpu" else "serve-cuda"
    if image.stage != wanted:
        raise UsageError(
            f"the image {image.name} was made as {image.stage}; {recipe.target} needs {wanted}",
            remedy="Leave --image out: the target's own image is built then.",
        )
