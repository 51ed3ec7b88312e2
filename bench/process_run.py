"""What a run needs when its engine is a process of this host: its environment, and the folder of its caches."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bench.bundle.cache_store import caches_home
from bench.bundle.installed import engine_environment
from bench.engine.caches import cache_environment, is_cold, made_with, open_caches, why_cold
from bench.engine.environment import EngineEnvironment, ensure_environment
from bench.engine.own import HOST
from bench.engine.preflight import device_variables
from bench.engine.process import Launch, ProcessEngine
from bench.plan import Share
from bench.report import folder_files as files
from recipes.command import engine_arguments

if TYPE_CHECKING:
    from bench.engine.base import Clock, OnProgress
    from bench.engine.install import Say
    from bench.plan import Host, RunPlan
    from recipes.schema import Recipe


class ProcessRun:
    """The environment of one run's engine.

    Args:
        recipe: resolved.
        host: where it takes place.
        say: takes a line for each thing that takes time.
        terminal: standard error is a terminal that nobody else draws on.
    """

    def __init__(self, recipe: Recipe, *, host: Host, say: Say, terminal: bool) -> None:
        self._lock = recipe.engine.lock
        self._host = host
        self._say = say
        self._terminal = terminal
        self._environment: EngineEnvironment | None = None

    def prepare(self) -> None:
        """Have the engine here: that of the bundle that this client came with, else the one of the lock, installed.

        Raises:
            StreamproofError: it cannot be installed.
        """
        self._environment = engine_environment(self._lock) or ensure_environment(
            self._lock, say=self._say, terminal=self._terminal
        )

    def engine(  # noqa: PLR0913  everything that an engine start is
        self,
        number: int,
        *,
        plan: RunPlan,
        folder: Path,
        clock: Clock,
        on_progress: OnProgress,
        share: Share | None = None,
    ) -> ProcessEngine:
        """The engine of one run; `prepare` came before. See `bench.docker_run.DockerRun.engine`.

        Raises:
            StreamproofError: the folder of its caches cannot be used.
        """
        environment = self._environment
        if environment is None:
            raise RuntimeError("prepare() was not called")
        recipe, checkpoint = plan.recipe, plan.checkpoint
        share = share or Share(replica=0, host=self._host)
        devices = device_variables(share.host.gpus)
        launch = Launch(
            environment=environment,
            arguments=lambda port: engine_arguments(recipe, model=checkpoint.model, host=HOST, port=port),
            model=recipe.target,
            env={**cache_environment(self._caches(environment, plan, folder, share)), **recipe.engine.env, **devices},
            log=folder / files.engine_log(number, share.replica),
            ready_timeout_s=recipe.engine.ready_timeout_s,
        )
        return ProcessEngine(launch, run=number, clock=clock, on_progress=on_progress)

    def _caches(self, environment: EngineEnvironment, plan: RunPlan, folder: Path, share: Share) -> Path:
        """Where the engine keeps what it compiles: a folder of this fingerprint, card, driver and package set."""
        here = made_with(
            plan.recipe,
            fingerprint=plan.engine_fingerprint,
            engine="process",
            machine=self._host.machine,
            gpus=share.host.gpus,
            packages=environment.packages_sha256,
            run=f"{folder.parent.name}/{folder.name}",
        )
        root = caches_home()
        caches = open_caches(root, here)
        if share.replica == 0 and is_cold(caches):
            for line in why_cold(root, here):
                self._say(line)
        return caches
