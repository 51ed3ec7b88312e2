"""The main job on the real engine, as a user runs it: valid by its own rules, verified, and nothing left behind."""

import json
import signal
import subprocess
import threading
from pathlib import Path

import psutil
import pytest

from bench.report import folder_files as files
from bench.report.rules_probe import ANSWERED, CACHED, REPEATED, RULES
from tests.run.real_run import SHORT, RealRun, bench, engine_processes, outcome, repro

pytestmark = pytest.mark.engine
SHORTER = {**SHORT, "load.ladder": "[{streams = 4}]"}


@pytest.fixture(params=["cpu", "cpu-mtp"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> RealRun:
    if request.param == "cpu":
        shared: RealRun = request.getfixturevalue("cpu_run")
        return shared
    return outcome(repro("cpu-mtp", tmp_path, {**SHORTER, "load.steady_s": "6"}), tmp_path, "cpu-mtp")


@pytest.mark.alone
def test_a_target_is_reproduced_and_verified(run: RealRun) -> None:
    report, target = run.report, run.report["target"]
    verdicts = {(check["rule"], check["point"]): check for check in report["checks"]}
    for point in report["points"]:
        assert point["complete"]
        assert point["failures"] == {}
        for rule in ("client totals equal the engine's", "prefix hits are as predicted", "no request was preempted"):
            assert verdicts[rule, point["index"]]["verdict"] == "kept", (verdicts[rule, point["index"]], run.err)
        if target == "cpu":
            assert point["prefix_cache"]["measured_rate"] > 0.6
            assert point["prefix_cache"]["measured_rate"] == pytest.approx(
                point["prefix_cache"]["predicted_rate"], rel=0.02
            )
        else:
            assert point["speculation"]["acceptance_length"] > 1.5
    probed = {rule: check for (rule, _), check in verdicts.items() if rule in RULES}
    assert probed.keys() == (set(RULES) if target == "cpu" else {ANSWERED, REPEATED})  # MTP runs without a cache here
    assert {check["verdict"] for check in probed.values()} == {"kept"}, probed
    assert "toy weights, CPU, scaled prompts" in report["title"]
    assert run.code == report["exit_code"]
    assert engine_processes(run.folder) == []
    checked = bench("verify", str(run.folder), "--json", config=run.home)
    out, _ = checked.communicate(timeout=60)
    assert json.loads(out)["verified"] is True


@pytest.mark.thorough
def test_on_random_weights_log_probabilities_decide(tmp_path: Path) -> None:
    """Served as the recipes of random weights serve theirs, without a tokenizer.

    Another prompt moves some of this toy's logits by one step of BF16's grid, or none: then it is not told apart.
    """
    flags = {"engine.flags.load_format": "dummy", "engine.flags.skip_tokenizer_init": "true"}
    settings = {**SHORTER, "workload.api": "token_ids", **flags}
    report = outcome(repro("cpu", tmp_path, settings), tmp_path, "cpu").report
    checks = {check["rule"]: check for check in report["checks"] if check["rule"] in RULES}
    assert checks[ANSWERED]["verdict"] == "kept", checks
    for rule in (REPEATED, CACHED):
        verdict, measured = checks[rule]["verdict"], checks[rule]["measured"]
        assert "another prompt got the same reply, too" in measured
        told_apart = "but not the same log-probabilities" in measured
        assert verdict == ("kept" if told_apart else "unknown"), measured
        assert told_apart or "they moved by 0 nats, but the other prompt's are" in measured


def test_an_engine_that_is_killed_leaves_an_honest_report_and_no_process(tmp_path: Path) -> None:
    client = repro("cpu", tmp_path, {**SHORTER, "load.ramp_s": "0.5", "load.steady_s": "40"})
    engine = engine_processes(wait_for_records(client, tmp_path / "reports", 8))
    worker = max(engine, key=lambda process: process.memory_info().rss)
    worker.send_signal(signal.SIGKILL)
    ended = outcome(client, tmp_path, "cpu")
    assert ended.code == 1
    assert ended.report["partial"] is True
    assert "the engine died" in ended.report["partial_reason"]
    assert ended.report["points"][0]["requests"] >= 1
    assert [process for process in engine if process.is_running()] == []


@pytest.mark.thorough
def test_a_client_that_is_killed_takes_the_engine_with_it(tmp_path: Path) -> None:
    client = repro("cpu", tmp_path, SHORT)
    folder = wait_for_records(client, tmp_path / "reports", 0)
    engine = engine_processes(folder)
    assert engine
    client.kill()
    client.communicate()
    _, alive = psutil.wait_procs(engine, timeout=60)
    assert alive == []


def wait_for_records(client: subprocess.Popen[str], reports: Path, count: int) -> Path:
    """The report's folder, once the engine has been started and so many requests have been recorded."""
    pause = threading.Event()
    for _ in range(2400):
        for folder in reports.glob("cpu/*"):
            journal, log = folder / files.RUNNING_RECORDS, folder / files.engine_log(0)
            recorded = journal.read_bytes().count(b"\n") if journal.exists() else 0
            if recorded >= count and log.exists() and log.stat().st_size:
                return folder
        assert client.poll() is None, client.communicate()
        pause.wait(0.1)
    raise AssertionError("the run did not get so far")
