"""The script under Slurm itself, which has two pretended GPUs; what it starts is a stand-in for the client."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.deploy import slurm as rendered
from tests.deploy.hostile import asked
from tests.deploy.private_slurm import slurm, until

if TYPE_CHECKING:
    from tests.deploy.private_slurm import Slurm

__all__ = ["slurm"]

TARGET = "h200-fp8-dp2-dummy"
TITLE = "title=it's $HOME\nand `more`"
STAND_IN = """#!/usr/bin/env python3
import os, pathlib, signal, sys

def stop(*_):
    pathlib.Path("partial").touch()
    sys.exit(130)

signal.signal(signal.SIGTERM, stop)
pathlib.Path("seen").write_text("\\0".join([os.environ["SLURM_GPUS_ON_NODE"], *sys.argv[1:]]))
if "STAY" in os.environ:
    signal.pause()
sys.exit(3)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """From which jobs are submitted."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "streamproof").write_text(STAND_IN)
    (tmp_path / "bin" / "streamproof").chmod(0o755)
    (tmp_path / "job.sbatch").write_text(rendered.script(asked(TARGET, overrides={"title": TITLE.partition("=")[2]})))
    return tmp_path


def submit(cluster: Slurm, folder: Path, **variables: str) -> str:
    """The number of the job."""
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sbatch", "--parsable", "job.sbatch"],
        cwd=folder,
        env={**os.environ, **cluster.variables, "PATH": path, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def ended(cluster: Slurm, number: str) -> dict[str, str]:
    """What is told of a job, once it has ended."""
    going = {"PENDING", "RUNNING", "COMPLETING"}
    until(lambda: cluster.job(number)["JobState"] not in going, otherwise=lambda: cluster.ask("squeue"))
    return cluster.job(number)


def test_it_gets_its_cards_and_time_runs_the_recipe_and_its_exit_code_is_the_jobs(slurm: Slurm, folder: Path) -> None:
    told = ended(slurm, submit(slurm, folder))
    assert told["ExitCode"] == "3:0"
    assert (folder / "seen").read_text().split("\0") == [
        *("2", "repro", TARGET, "--set", TITLE, "--engine", "process"),
        *("--reports", str(folder / "reports")),
    ]
    assert told["JobName"] == f"streamproof-{TARGET}"
    assert told["OverSubscribe"] == "NO"
    assert told["Requeue"] == "0"
    limit = next(line for line in (folder / "job.sbatch").read_text().splitlines() if "--time=" in line)
    assert f"--time=0-{told['TimeLimit']}" in limit
    (log,) = folder.glob("*.log")
    assert log.read_text() == ""


def test_a_signal_to_the_batch_shell_leaves_a_partial_report(slurm: Slurm, folder: Path) -> None:
    number = submit(slurm, folder, STAY="1")
    until((folder / "seen").exists, otherwise=lambda: slurm.ask("squeue"))
    slurm.ask("scancel", "--batch", "--signal=TERM", number)
    assert ended(slurm, number)["ExitCode"] == "130:0"
    assert (folder / "partial").exists()
