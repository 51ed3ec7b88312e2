"""Two replicas as a user runs them, with reference servers: whole, one killed, interrupted, one that does not start."""

from __future__ import annotations

import json
import os
import signal
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from bench import repro
from bench.errors import Exit, StreamproofError
from bench.observe.observations import EngineStarted
from bench.report import folder_files as files
from bench.report.folder_evidence import parse_observations
from bench.report.keys import trusted_keys
from bench.report.verify import verify
from bench.repro import Wishes, reproduce
from recipes.load import load_recipe
from tests.run.truth_replicas import TruthReplicas, servers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SETTINGS = {
    "engine.replicas": "2",
    "workload.api": "token_ids",
    "workload.prompt_tokens": "900",
    "workload.shared_prefix_tokens": "500",
    "workload.agents": '["router", "booking"]',
    "workload.output_tokens": "8",
    "load.ladder": "[{streams = 3}]",
    "load.turn_gap": '{distribution = "fixed", mean_s = 0.05}',
    "load.ramp_s": "0.2",
    "load.steady_s": "1.0",
}
LONG = {**SETTINGS, "load.steady_s": "6"}
"""Longer than any test looks on; the turns of the whole window are prepared before it, so not much longer."""


@pytest.fixture(autouse=True)
def truth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(repro, "ProcessRun", TruthReplicas)
    monkeypatch.setattr(repro, "check_hardware", lambda *_, **__: ())


def run(tmp_path: Path, settings: dict[str, str]) -> int:
    recipe = load_recipe("cpu", settings)
    return reproduce(recipe, reports=tmp_path / "reports", wishes=Wishes(), quiet=True, as_json=False)


def report_in(tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    (folder,) = (tmp_path / "reports" / "cpu").iterdir()
    report: dict[str, Any] = json.loads((folder / files.REPORT).read_bytes())
    return folder, report


def in_the_ladder(tmp_path: Path, act: Callable[[], object]) -> threading.Thread:
    """Does something once some requests have been recorded."""

    def watch() -> None:
        pause = threading.Event()
        for _ in range(2400):
            journals = (tmp_path / "reports").glob(f"cpu/*/{files.RUNNING_RECORDS}")
            if any(journal.read_bytes().count(b"\n") >= 9 for journal in journals):
                act()
                return
            pause.wait(0.05)

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def test_calls_are_spread_over_replicas_and_stay_there(tmp_path: Path) -> None:
    code = run(tmp_path, SETTINGS)
    folder, report = report_in(tmp_path)
    checks = {(check["rule"], check["point"]): check for check in report["checks"]}
    for rule in ("client totals equal the engine's", "calls stayed at their replica", "prefix hits are as predicted"):
        assert checks[rule, 0]["verdict"] == "kept", checks[rule, 0]
    assert checks["calls stayed at their replica", 0]["expected"].startswith("stream s at replica s modulo 2: ")
    assert code == report["exit_code"]
    seen = parse_observations((folder / files.OBSERVATIONS).read_bytes())
    (started,) = (each for each in seen if isinstance(each, EngineStarted))
    assert len(started.replicas) == 2
    logs = {path.name for path in folder.glob("*.log")}
    assert logs == {"engine-0.log", "engine-0-replica-1.log"}
    assert verify(folder, trusted_keys(allow_list=None)).verified
    assert "2 replicas" in (folder / files.PAGE).read_text()
    assert "2 replicas side by side" in (folder / files.MARKDOWN).read_text()
    assert servers(tmp_path) == {}


def kill_the_second(tmp_path: Path) -> None:
    servers(tmp_path)[1].kill()


def test_a_replica_that_is_killed_ends_the_run_and_is_named(tmp_path: Path) -> None:
    watching = in_the_ladder(tmp_path, partial(kill_the_second, tmp_path))
    code = run(tmp_path, LONG)
    watching.join()
    folder, report = report_in(tmp_path)
    assert code == Exit.FAILURE
    assert report["partial"] is True
    assert report["partial_reason"] == "the engine died: replica 1 died: it was killed by SIGKILL"
    assert report["points"][0]["complete"] is False
    assert verify(folder, trusted_keys(allow_list=None)).verified
    assert servers(tmp_path) == {}


def test_ctrl_c_leaves_a_report_and_no_replica(tmp_path: Path) -> None:
    watching = in_the_ladder(tmp_path, lambda: os.kill(os.getpid(), signal.SIGINT))
    code = run(tmp_path, LONG)
    watching.join()
    _, report = report_in(tmp_path)
    assert (code, report["partial"]) == (Exit.INTERRUPTED, True)
    assert report["partial_reason"] == "stopped by the user: stopped by SIGINT"
    assert servers(tmp_path) == {}


def test_a_replica_that_does_not_start_is_named_and_the_others_are_stopped(tmp_path: Path) -> None:
    with pytest.raises(StreamproofError, match=r"^replica 1: the engine died while importing the engine") as caught:
        run(tmp_path, {**SETTINGS, "engine.env.TRUTH_BROKEN": '"1"'})
    assert "engine-0-replica-1.log" in caught.value.remedy
    _, report = report_in(tmp_path)
    assert "replica 1: the engine died" in report["partial_reason"]
    assert servers(tmp_path) == {}
