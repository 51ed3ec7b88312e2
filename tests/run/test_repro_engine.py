"""The main job on the real engine, as a user runs it: valid by its own rules, verified, and nothing left behind."""

import json
import signal
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from bench.report import folder_files as files
from bench.report.rules_probe import ANSWERED, CACHED, REPEATED, RULES
from tests.run.real_run import SHORT, RealRun, bench, engine_processes, outcome, repro

pytestmark = pytest.mark.engine
SHORTER = {**SHORT, "load.ladder": "[{streams = 4}]"}
COMPILED = "nothing was compiled or captured in the window"
KERNEL = "kernel.of_a_test.cu"


@pytest.fixture(scope="module")
def mtp_run(tmp_path_factory: pytest.TempPathFactory) -> RealRun:
    """Target cpu-mtp, with a file that appears in DeepGEMM's cache while its window is open."""
    base = tmp_path_factory.mktemp("cpu-mtp")
    client = repro("cpu-mtp", base, {**SHORTER, "load.steady_s": "6"})
    folder = wait_for(client, base / "reports/cpu-mtp", lambda folder: '"steady"' in observed(folder))
    variables = [process.environ() for process in engine_processes(folder)]
    cache = Path(next(each["DG_JIT_CACHE_DIR"] for each in variables if "DG_JIT_CACHE_DIR" in each))
    cache.mkdir(parents=True, exist_ok=True)
    (cache / KERNEL).write_text("__global__ void nothing();")
    try:
        return outcome(client, base, "cpu-mtp")
    finally:
        (cache / KERNEL).unlink()
        with suppress(OSError):  # other runs of this target have compiled something
            cache.rmdir()


@pytest.fixture(params=["cpu_run", "mtp_run"])
def run(request: pytest.FixtureRequest) -> RealRun:
    shared: RealRun = request.getfixturevalue(request.param)
    return shared


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


@pytest.mark.alone
def test_the_plans_lasting_hits_are_observed_and_no_assumption_where_they_last(cpu_run: RealRun) -> None:
    (seen,) = (one for one in map(json.loads, observed(cpu_run.folder).splitlines()) if one["kind"] == "lasting_hits")
    measured = [point["prefix_cache"]["measured_rate"] for point in cpu_run.report["points"]]
    assert seen["hits"]["lost_after"] is None
    assert seen["hits"]["rate"] == pytest.approx(min(measured), rel=0.05)
    assert "prefix hits" not in {assumption["key"] for assumption in cpu_run.report["assumptions"]}


@pytest.mark.alone
def test_the_engines_caches_show_nothing_where_nothing_is_compiled(cpu_run: RealRun) -> None:
    looks = [seen for seen in map(json.loads, observed(cpu_run.folder).splitlines()) if seen["kind"] == "compiled"]
    assert [(look["point"], look["why_not"]) for look in looks] == [(0, None), (1, None)]
    assert looks[1]["count"] == 0  # what was compiled for the first requests, in a ramp, is no fault
    checks = [check for check in cpu_run.report["checks"] if check["rule"] == COMPILED]
    assert {(check["verdict"], check["measured"]) for check in checks} == {
        ("kept", "none in the engine's log and none in its caches")
    }


@pytest.mark.alone
def test_a_kernel_that_appears_while_the_window_is_open_makes_a_report_invalid(mtp_run: RealRun) -> None:
    (check,) = (check for check in mtp_run.report["checks"] if check["rule"] == COMPILED)
    assert check["verdict"] == "broken"
    assert check["measured"].startswith("1 file of compiled code in the engine's caches, the first ")
    assert check["measured"].endswith(f" s into the window: deep_gemm, {KERNEL}")
    assert (mtp_run.report["valid"], mtp_run.code) == (False, 4)


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


def observed(folder: Path) -> str:
    path = folder / files.OBSERVATIONS
    return path.read_text() if path.exists() else ""


def wait_for_records(client: subprocess.Popen[str], reports: Path, count: int) -> Path:
    """The report's folder, once the engine has been started and so many requests have been recorded."""

    def so_many(folder: Path) -> bool:
        journal, log = folder / files.RUNNING_RECORDS, folder / files.engine_log(0)
        recorded = journal.read_bytes().count(b"\n") if journal.exists() else 0
        return recorded >= count and log.exists() and log.stat().st_size > 0

    return wait_for(client, reports / "cpu", so_many)


def wait_for(client: subprocess.Popen[str], made: Path, come: Callable[[Path], bool]) -> Path:
    """The report's folder, once something has come about there."""
    pause = threading.Event()
    for _ in range(2400):
        for folder in made.glob("*"):
            if come(folder):
                return folder
        assert client.poll() is None, client.communicate()
        pause.wait(0.1)
    raise AssertionError("the run did not get so far")
