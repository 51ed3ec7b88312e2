"""Reference servers in the place of engines that stay: our own processes, whose latency the recipe decides."""

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
    from bench.plan import RunPlan
    from recipes.schema import Recipe

ROOT = Path(__file__).parents[3]
SLOW_S = 0.06
"""Median latency without any factor."""


def engines(folder: Path) -> dict[str, psutil.Process]:
    """The servers that were started below a folder and live, by the name of their configuration."""
    found = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            scripts = [Path(word) for word in process.cmdline() if word.endswith("/script.json")]
            if scripts and scripts[0].is_relative_to(folder) and process.status() != psutil.STATUS_ZOMBIE:
                found[scripts[0].parent.name] = process
    return found


class TruthRun:
    """Takes the place of `bench.process_run.ProcessRun`: a recipe's environment variables say how fast it answers.

    The latency is multiplied with every TRUTH_FACTOR...; a TRUTH_BROKEN server ends while it starts, and one that
    TRUTH_HANGS never answers.
    """

    def __init__(self, recipe: Recipe, **_: Any) -> None:
        self._env = recipe.engine.env

    def prepare(self) -> None:
        """Nothing."""

    def engine(
        self, number: int, *, plan: RunPlan, folder: Path, clock: Clock, on_progress: OnProgress
    ) -> ProcessEngine:
        """A server that stands for the recipe's engine."""
        median = SLOW_S
        for name, value in self._env.items():
            median *= float(value) if name.startswith("TRUTH_FACTOR") else 1.0
        law = {"e2e_p50_s": median, "e2e_p95_s": median * 1.2}
        script = folder / "script.json"
        # Without a prefix cache: the simulated one has none of the states that the recipe's model would resume from.
        known = {"law": law, "model": plan.recipe.target}
        script.write_text(json.dumps(known))
        arguments = ["--script", str(script), *(["--nonsense"] if "TRUTH_BROKEN" in self._env else [])]
        hangs = "TRUTH_HANGS" in self._env
        environment = EngineEnvironment(
            name="truth",
            python=Path(sys.executable),
            module="standin_server" if hangs else "tests.truth",
            env={"PYTHONPATH": f"{ROOT}:{ROOT / 'tests/engine'}", "STANDIN": "hang"},
            packages_sha256="ab" * 32,
        )
        if hangs:
            arguments = ["--served-model-name", str(script)]
        launch = Launch(
            environment=environment,
            arguments=lambda port: ["--port", str(port), *arguments],
            model=plan.recipe.target,
            env={},
            log=folder / files.engine_log(number),
            ready_timeout_s=60.0,
        )
        return ProcessEngine(launch, run=number, clock=clock, on_progress=on_progress)
