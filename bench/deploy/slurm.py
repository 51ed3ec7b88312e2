"""A script for `sbatch`: the whole run on one exclusive host, the engine as a process of it."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from bench.deploy.names import Names
from bench.deploy.templates import render
from bench.deploy.times import job_s, slurm_time

if TYPE_CHECKING:
    from bench.deploy.asked import Asked

NOTICE_S: Final = 120
"""Seconds before its time limit at which a job is told to end: the engine stops and a partial report is written."""

EARLY_S: Final = 60
"""By which Slurm may send that signal earlier than it was asked to (manual of sbatch, --signal)."""


def script(asked: Asked) -> str:
    """The script.

    Raises:
        UsageError: the recipe takes longer than any scheduler allows, or holds what no command line can.
    """
    recipe = asked.recipe
    return render(
        "slurm.sh.j2",
        title=recipe.title,
        target=recipe.target,
        version=version("streamproof"),
        job=Names.of(recipe.target).engine,
        gpus=recipe.hardware.count,
        gpu=recipe.hardware.gpu or "",
        starts=recipe.load.runs,
        limit=slurm_time(job_s(recipe) + NOTICE_S + EARLY_S),
        notice_s=NOTICE_S,
        own_file=bool(asked.own_files()),
        words=asked.repro(asked.target, "--engine", "process"),
    )
