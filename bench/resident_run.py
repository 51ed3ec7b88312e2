"""What a run needs when its engine is there already: started by an ablation, which also stops it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.report import folder_files as files

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from bench.engine.base import Clock, OnProgress
    from bench.engine.resident import Lent, ResidentEngine
    from bench.observe.gpu import Gpu
    from bench.plan import RunPlan


class ResidentRun:
    """An engine that stays, and what it was started with.

    Args:
        engine: ready.
        plan: that it was started with, and that every run on it has.
        gpus: that it uses.
        beside: tells how many other engines stay on the same hardware.
    """

    def __init__(
        self, engine: ResidentEngine, *, plan: RunPlan, gpus: Sequence[Gpu], beside: Callable[[], int]
    ) -> None:
        self.resident = engine
        self.plan = plan
        self.gpus = tuple(gpus)
        self._beside = beside

    def prepare(self) -> None:
        """Nothing: it runs."""

    def engine(self, number: int, *, plan: RunPlan, folder: Path, clock: Clock, on_progress: OnProgress) -> Lent:
        """The engine of one run. See `bench.docker_run.DockerRun.engine`.

        Raises:
            RuntimeError: the run is of another recipe.
        """
        if plan.fingerprint != self.plan.fingerprint:
            raise RuntimeError("a resident engine measures the recipe that it was started with")
        del on_progress  # there is no start to tell of
        log = folder / files.engine_log(number)
        return self.resident.lend(run=number, clock=clock, log=log, beside=self._beside())
