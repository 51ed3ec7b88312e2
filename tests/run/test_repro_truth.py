"""The main job as a user runs it, against the reference server: whole, wrong, interrupted, killed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from bench.load.journal import read
from bench.report import folder_files as files
from bench.report.rules_probe import ANSWERED, CACHED, REPEATED, RULES
from tests.run.repro_client import ROOT, ReproClient
from tests.truth.process import TruthServer, running

SETTINGS = {
    "workload.api": "token_ids",
    "workload.prompt_tokens": "900",
    "workload.shared_prefix_tokens": "500",
    "load.ladder": "[{streams = 2}, {streams = 4}]",
    "load.turn_gap": '{distribution = "fixed", mean_s = 0.05}',
    "load.ramp_s": "0.3",
    "load.steady_s": "1.5",
}
LONG = {**SETTINGS, "load.steady_s": "20"}
"""Longer than any test looks on; the turns of the whole window are prepared before it, so not much longer."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[TruthServer]:
    with running({"prefix_caching": True, "block_size": 16, "answers": {}}, folder=tmp_path) as started:
        yield started


class Client(ReproClient):
    """Of the reference server at `url`."""

    def __init__(self, url: str, tmp_path: Path, settings: dict[str, str], *options: str) -> None:
        super().__init__(tmp_path, settings, "--base-url", url, *options)


StartClient = Callable[..., Client]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[StartClient]:
    clients: list[Client] = []

    def begin(url: str, settings: dict[str, str], *options: str) -> Client:
        clients.append(Client(url, tmp_path, settings, *options))
        return clients[-1]

    yield begin
    for client in clients:
        client.process.kill()
        client.process.communicate()


def verify(folder: Path, tmp_path: Path) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "verify", str(folder), "--json"],
        cwd=ROOT,
        env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path / "config")},
        capture_output=True,
        text=True,
        check=False,
    )
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_a_whole_run_is_measured_reported_signed_and_verified(
    server: TruthServer, run: StartClient, tmp_path: Path
) -> None:
    client = run(server.base_url, SETTINGS)
    code, err = client.end()
    report = client.report
    checks = {(c["rule"], c["point"]): c for c in report["checks"]}
    for point in (0, 1):
        assert checks["client totals equal the engine's", point]["verdict"] == "kept", err
        assert checks["complete replies are complete", point]["verdict"] == "kept"
        # What somebody else's engine was started with is not known, so its hits are not predicted.
        assert checks["prefix hits are as predicted", point]["verdict"] == "unknown"
    assert checks["prompts never repeat between points", None]["verdict"] == "kept"
    for rule in RULES:  # of the probe
        assert checks[rule, None]["verdict"] == "kept", checks[rule, None]
    points = report["points"]
    assert [point["label"] for point in points] == ["2 streams", "4 streams"]
    assert all(point["complete"] and not point["failures"] for point in points)
    assert "external engine" in str(report["title"])
    assert report["partial"] is False
    assert code == report["exit_code"]
    assert verify(client.folder, tmp_path)["verified"] is True


@pytest.mark.parametrize(
    ("script", "rule"),
    [
        ({"answers": {"wrong": "leak"}}, REPEATED),
        ({"answers": {"wrong": "stale"}, "prefix_caching": True}, CACHED),
        ({"answers": {}, "requests": [{}, {"fault": "cut", "fault_after": 3}]}, ANSWERED),
        ({"answers": {"wrong": "leak", "flat": 2e-3, "rounding": 2e-5}}, REPEATED),
    ],
    ids=["leak", "stale", "lost", "leak into log-probabilities"],
)
def test_an_engine_that_answers_wrongly_makes_no_measurement(
    tmp_path: Path, run: StartClient, script: dict[str, Any], rule: str
) -> None:
    short = {**SETTINGS, "load.ladder": "[{streams = 2}]", "load.steady_s": "0.5"}
    with running(script, folder=tmp_path) as server:
        client = run(server.base_url, short)
        code, err = client.end()
    report: Any = client.report
    assert code == report["exit_code"] == 4, err
    assert rule in {check["rule"] for check in report["checks"] if check["verdict"] == "broken"}
    assert verify(client.folder, tmp_path)["verified"] is True  # that it is invalid


def test_an_engine_that_says_one_token_for_ever_is_judged_by_log_probabilities(
    tmp_path: Path, run: StartClient
) -> None:
    short = {**SETTINGS, "load.ladder": "[{streams = 2}]", "load.steady_s": "0.5"}
    answers = {"flat": 2e-3, "rounding": 2e-5}
    with running({"answers": answers, "prefix_caching": True}, folder=tmp_path) as server:
        client = run(server.base_url, short)
        _, err = client.end()
    report: Any = client.report
    checks = {check["rule"]: check for check in report["checks"]}
    for rule in RULES:
        assert checks[rule]["verdict"] == "kept", (checks[rule], err)
    assert "but not the same log-probabilities" in checks[REPEATED]["measured"]
    assert verify(client.folder, tmp_path)["verified"] is True


ALL_KINDS = """[
    { streams = 2 },
    { streams = 6, barge_in = { share = 0.5, after_s = [0.05, 0.1] } },
    { concurrent = 2 },
    { rate = 20, arrivals = "poisson" },
    { rate = 20, arrivals = "fixed" },
    { trace = "%s" },
]"""


def trace_in(folder: Path, *lines: str) -> Path:
    trace = folder / "calls.jsonl"
    good = [json.dumps({"time": n / 50, "agent": "router", "tokens": 900}) for n in range(100)]
    trace.write_text("\n".join([*good, *lines]) + "\n")
    return trace


def test_every_kind_of_load_in_one_ladder(tmp_path: Path, run: StartClient) -> None:
    ladder = ALL_KINDS.replace("\n", " ") % trace_in(tmp_path)
    replies = {"workload.agents": '["router"]', "workload.turns": "[1, 1]", "workload.output_tokens": "30"}  # of 0.3 s
    settings = {**SETTINGS, **replies, "load.ladder": ladder, "load.steady_s": "1.5"}
    with running({"default": {"gap_s": 0.01}}, folder=tmp_path) as server:
        client = run(server.base_url, settings)
        code, err = client.end()
    report: Any = client.report
    checks = {(c["rule"], c["point"]): c for c in report["checks"]}
    points = report["points"]
    assert [point["label"] for point in points] == [
        "2 streams",
        "6 streams, 50 % interrupted",
        "2 concurrent requests",
        "20 requests/s, Poisson",
        "20 requests/s, fixed distances",
        "trace calls.jsonl",
    ], err
    assert all(point["complete"] and point["requests"] and not point["failures"] for point in points)
    interrupted = [check for check in report["checks"] if "stopped generating" in check["rule"]]
    assert [(check["point"], check["verdict"]) for check in interrupted] == [(1, "kept")], interrupted
    assert 0 < points[1]["e2e"]["p50"]["n"] < points[1]["requests"]
    for point in (0, 2, 3, 4, 5):
        assert checks["client totals equal the engine's", point]["verdict"] == "kept", err
    for point in (3, 4):
        assert checks["as many requests arrived as asked for", point]["verdict"] == "kept"
    assert points[4]["requests"] in (29, 30, 31)
    assert points[5]["requests"] + points[5]["ramp_requests"] == 90  # 1.8 s of the trace
    assert code == report["exit_code"]


def test_a_ladder_on_two_client_processes(server: TruthServer, run: StartClient) -> None:
    client = run(server.base_url, {**SETTINGS, "load.client_processes": "2", "load.steady_s": "1.0"})
    _, err = client.end()
    report: Any = client.report
    checks = {(c["rule"], c["point"]): c for c in report["checks"]}
    for point in (0, 1):
        assert checks["client totals equal the engine's", point]["verdict"] == "kept", err
        assert "in each of its processes (2)" in checks["the client had CPU to spare", point]["measured"]
    assert report["partial"] is False


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"load.turn_gap": '{distribution = "fixed", mean_s = -1}'}, "load.turn_gap.mean_s: Input should be greater"),
        ({"load.ladder": '[{rate = -1, arrivals = "fixed"}]'}, "load.ladder.0.rate: Input should be greater than 0"),
        ({"load.ladder": "[{streams = 1, barge_in = {share = 2, after_s = [0, 1]}}]"}, "barge_in.share: Input should"),
        ({"load.ladder": '[{trace = "%s"}]'}, "calls.jsonl, line 101: Invalid JSON"),
        ({"load.ladder": '[{trace = "none.jsonl"}]'}, "none.jsonl cannot be read"),
    ],
)
def test_a_load_that_cannot_be_is_refused_before_anything_starts(
    tmp_path: Path, run: StartClient, settings: dict[str, str], message: str
) -> None:
    trace = trace_in(tmp_path, "not a request")
    client = run(
        "http://127.0.0.1:9", {**SETTINGS, **{key: v.replace("%s", str(trace)) for key, v in settings.items()}}
    )
    code, err = client.end()
    assert code == 2
    assert message in " ".join(err.split())
    assert "Traceback" not in err
    assert not client.reports.exists()


def test_prompts_differ_between_two_jobs_on_one_server(server: TruthServer, run: StartClient) -> None:
    short = {**SETTINGS, "load.ladder": "[{streams = 2}]", "load.steady_s": "1.0"}
    hit_shares = []
    for _ in range(2):
        hits, queries = (server.counter(f"vllm:prefix_cache_{name}_total") for name in ("hits", "queries"))
        run(server.base_url, short).end()
        asked = server.counter("vllm:prefix_cache_queries_total") - queries
        hit_shares.append((server.counter("vllm:prefix_cache_hits_total") - hits) / asked)
    # A replay of the same prompts would hit almost all of them; new ones hit what they share among themselves.
    assert hit_shares[1] == pytest.approx(hit_shares[0], abs=0.1)
    assert hit_shares[1] < 0.9


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_keeps_its_records_and_says_so(
    server: TruthServer, run: StartClient, tmp_path: Path, number: signal.Signals
) -> None:
    client = run(server.base_url, LONG)
    client.until_recorded(20)
    client.process.send_signal(number)
    code, _ = client.end()
    assert code == 130
    report = client.report
    assert report["partial"] is True
    assert number.name in str(report["partial_reason"])
    assert "partial" in str(report["title"])
    assert verify(client.folder, tmp_path)["verified"] is True


def test_an_interrupted_probe(tmp_path: Path, run: StartClient) -> None:
    with running({"answers": {}, "default": {"fault": "hang"}}, folder=tmp_path) as server:
        client = run(server.base_url, SETTINGS)
        while not server.counter("vllm:num_requests_running"):
            assert client.process.poll() is None
        client.process.send_signal(signal.SIGINT)
        code, err = client.end()
    assert code == 130, err
    assert client.report["partial"] is True
    assert client.report["points"] == []
    assert verify(client.folder, tmp_path)["verified"] is True


def test_a_killed_client_loses_no_record_and_its_folder_can_be_finished(
    server: TruthServer, run: StartClient, tmp_path: Path
) -> None:
    client = run(server.base_url, LONG)
    folder = client.until_recorded(20)
    client.process.kill()
    client.process.communicate()
    kept = read(folder / files.RUNNING_RECORDS).records
    done = subprocess.run(
        [sys.executable, "-m", "bench", "finish", str(folder)],
        cwd=ROOT,
        env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path / "config")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "PARTIAL" in done.stdout
    points = client.report["points"]
    first = points[0]
    assert first["requests"] + first["ramp_requests"] == sum(not record.primed for record in kept)
    assert verify(folder, tmp_path)["verified"] is True


def test_a_server_that_dies_in_the_middle(server: TruthServer, run: StartClient) -> None:
    client = run(server.base_url, LONG)
    client.until_recorded(20)
    server.process.kill()
    code, _ = client.end()
    assert code == 1
    report = client.report
    assert report["partial"] is True
    assert "no longer answers" in str(report["partial_reason"])


def test_a_full_disk_ends_the_run_with_an_honest_report(server: TruthServer, run: StartClient, tmp_path: Path) -> None:
    disk = tmp_path / "reports"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", disk], check=False).returncode:
        pytest.skip("mounting a small disk needs root")
    try:
        client = run(server.base_url, LONG)
        folder = client.until_recorded(20)
        free = os.statvfs(folder)
        (disk / "filler").write_bytes(bytes((free.f_bavail - 4) * free.f_frsize))
        code, err = client.end()
        assert code == 1, err
        assert "No space left" in str(client.report["partial_reason"])
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


@pytest.mark.parametrize(
    ("script", "options", "message_and_code"),
    [
        ({"not_an_api": True}, [], ("HTML page", 2)),
        ({}, ["--model", "gpt-99"], ("gpt-99", 2)),
        ({"default": {"prompt_tokens": 7}}, [], ("tokenizer", 1)),
        ({"default": {"usage": "absent"}}, [], ("include_usage", 1)),
    ],
)
def test_a_wrong_server_is_one_line_with_a_remedy(
    tmp_path: Path, run: StartClient, script: dict[str, object], options: list[str], message_and_code: tuple[str, int]
) -> None:
    with running(script, folder=tmp_path) as server:
        client = run(server.base_url, SETTINGS, *options)
        returned, err = client.end()
    message, code = message_and_code
    assert returned == code
    assert message in err
    assert "Traceback" not in err
    assert "do:" in err


def test_nothing_listens_there(run: StartClient) -> None:
    client = run("http://127.0.0.1:9", SETTINGS)
    code, err = client.end()
    assert code == 1
    assert "no engine answers at http://127.0.0.1:9" in err


def test_no_process_of_ours_is_left(server: TruthServer, run: StartClient) -> None:
    client = run(server.base_url, LONG)
    client.until_recorded(5)
    children = psutil.Process(client.process.pid).children(recursive=True)
    client.process.send_signal(signal.SIGINT)
    client.end()
    assert [child for child in children if child.is_running()] == []
