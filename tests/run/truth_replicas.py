"""Reference servers in the place of a recipe's replicas: our own processes, under our own guards."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from bench.engine.environment import EngineEnvironment
from bench.engine.process import Launch, ProcessEngine
from bench.report import folder_files as files

if TYPE_CHECKING:
    from bench.engine.base import Clock, OnProgress
    from bench.plan import RunPlan, Share
    from recipes.schema import Recipe

ROOT = Path(__file__).parents[2]
SCRIPT: dict[str, Any] = {
    "prefix_caching": True,
    "block_size": 16,
    "mamba_cache_mode": "none",
    "answers": {},
    "default": {"ttft_s": 0.01, "gap_s": 0.001},
}


def servers(folder: Path) -> dict[int, psutil.Process]:
    """The servers that were started for reports below a folder and live, by their replica."""
    found = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            line = process.cmdline()
            if not {"tests.truth", "--script"} <= set(line) or process.status() == psutil.STATUS_ZOMBIE:
                continue
            script = Path(line[line.index("--script") + 1])
            if script.is_relative_to(folder) and not process.children():  # its guards have
                found[int(script.stem.removeprefix("replica-"))] = process
    return found


class TruthReplicas:
    """Takes the place of `bench.process_run.ProcessRun`. The replica whose number TRUTH_BROKEN is does not start."""

    def __init__(self, recipe: Recipe, **_: Any) -> None:
        self._env = recipe.engine.env

    def prepare(self) -> None:
        """Nothing."""

    def engine(
        self, number: int, *, plan: RunPlan, folder: Path, clock: Clock, on_progress: OnProgress, share: Share
    ) -> ProcessEngine:
        """A server that stands for one replica."""
        script = folder.parents[1] / f"replica-{share.replica}.json"
        script.write_text(json.dumps(SCRIPT | {"model": plan.recipe.target}))
        broken = self._env.get("TRUTH_BROKEN") == str(share.replica)
        environment = EngineEnvironment(
            name="truth",
            python=Path(sys.executable),
            module="tests.truth",
            env={"PYTHONPATH": str(ROOT)},
            packages_sha256="ab" * 32,
        )
        launch = Launch(
            environment=environment,
            arguments=lambda port: ["--script", str(script), "--port", "none" if broken else str(port)],
            model=plan.recipe.target,
            env={"HOME": str(folder.parents[2])},
            log=folder / files.engine_log(number, share.replica),
            ready_timeout_s=60.0,
        )
        return ProcessEngine(launch, run=number, clock=clock, on_progress=on_progress)
