"""`python -m bench ...` in processes of their own, on the real engine, and what a run leaves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from bench.report import folder_files as files

ROOT = Path(__file__).parents[2]
SHORT = {"load.ladder": "[{streams = 2}, {streams = 4}]", "load.ramp_s": "2", "load.steady_s": "10"}


@dataclass(frozen=True)
class RealRun:
    """A run that has ended.

    Attributes:
        home: holds the signer's key: the configuration folder of whoever ran it.
        code: exit code.
        folder, report: what it left.
        err: standard error.
    """

    home: Path
    code: int
    folder: Path
    report: dict[str, Any]
    err: str


def bench(*arguments: str, config: Path, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "bench", *arguments],
        cwd=ROOT,
        env={**os.environ, "XDG_CONFIG_HOME": str(config), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def repro(target: str, base: Path, settings: dict[str, str]) -> subprocess.Popen[str]:
    sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    return bench("repro", target, "--reports", str(base / "reports"), "--json", *sets, config=base)


def outcome(process: subprocess.Popen[str], base: Path, target: str) -> RealRun:
    _, err = process.communicate(timeout=400)
    made = base / "reports" / target
    assert made.is_dir(), err
    (folder,) = made.iterdir()
    return RealRun(base, process.returncode, folder, json.loads((folder / files.REPORT).read_bytes()), err)


def engine_processes(folder: Path) -> list[psutil.Process]:
    """Every process that writes a log of this run's engine, or of its replicas."""
    logs = {str(folder / files.engine_log(0, replica)) for replica in range(2)}
    found = []
    for process in psutil.process_iter():
        try:
            if any(file.path in logs for file in process.open_files()):
                found.append(process)
        except psutil.Error:
            continue
    return found
