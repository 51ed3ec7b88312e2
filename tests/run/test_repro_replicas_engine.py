"""Two replicas of the toy on the real engine: calls stay where they began, hits are as predicted, nothing is left."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import psutil
import pytest

from bench.report import folder_files as files
from tests.run.real_run import engine_processes, outcome, repro

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.engine, pytest.mark.thorough]

SETTINGS = {
    "engine.replicas": "2",
    "load.ladder": "[{streams = 5}, {concurrent = 3}]",
    "load.ramp_s": "2",
    "load.steady_s": "12",
}


def test_two_replicas_are_measured_as_one_engine(tmp_path: Path) -> None:
    run = outcome(repro("cpu", tmp_path, SETTINGS), tmp_path, "cpu")
    checks = {(check["rule"], check["point"]): check for check in run.report["checks"]}
    for point in run.report["points"]:
        assert point["complete"], run.err
        assert point["failures"] == {}
        for rule in (
            "client totals equal the engine's",
            "calls stayed at their replica",
            "prefix hits are as predicted",
        ):
            assert checks[rule, point["index"]]["verdict"] == "kept", checks[rule, point["index"]]
        assert point["prefix_cache"]["measured_rate"] > 0.6
    assert any(
        found["key"] == "load.affinity" and "replica s modulo 2" in found["why"] for found in run.report["assumptions"]
    )
    assert engine_processes(run.folder) == []


def test_a_killed_client_leaves_no_replica_behind(tmp_path: Path) -> None:
    client = repro("cpu", tmp_path, SETTINGS)
    wait = threading.Event()
    left: list[psutil.Process] = []
    for _ in range(1200):
        assert client.poll() is None, client.communicate()
        for second in (tmp_path / "reports").glob(f"cpu/*/{files.engine_log(0, 1)}"):
            left = engine_processes(second.parent)
        if sum(process.name().startswith("VLLM::EngineCor") for process in left) == 2:
            break
        wait.wait(0.2)
    assert len(left) >= 8  # two guards, a server and an engine core of each
    client.kill()
    client.communicate()
    assert psutil.wait_procs(left, timeout=30)[1] == []
