"""`just capacity` and `just frontier` as a user runs them, against a server with a known law of latency."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from bench.cli import app
from bench.errors import Exit, UsageError
from bench.report import folder_files as files
from tests.truth.process import running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.truth.process import TruthServer

ROOT = Path(__file__).parents[3]
SETTINGS = {
    "workload.api": "token_ids",
    "workload.prompt_tokens": "900",
    "workload.shared_prefix_tokens": "500",
    "workload.output_tokens": "4",
    "load.ladder": "[{streams = 2}]",
    "load.turn_gap": '{distribution = "fixed", mean_s = 0.01}',
    "load.ramp_s": "0.2",
    "load.steady_s": "1.2",
}
SLOTS = 4
"""The server answers so many requests at once, each in 40 ms; who comes later waits for a slot."""
LAW = {"default": {"ttft_s": 0.03, "gap_s": 0.0033}, "max_running": SLOTS, "prefix_caching": True, "block_size": 16}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[TruthServer]:
    with running(LAW, folder=tmp_path) as started:
        yield started


def command(tmp_path: Path, name: str, url: str, *options: str, **settings: str) -> list[str]:
    sets = [word for key, value in (SETTINGS | settings).items() for word in ("--set", f"{key}={value}")]
    start = [sys.executable, "-m", "bench", name, "cpu", "--base-url", url, "--reports", str(tmp_path / "reports")]
    return [*start, "--json", *sets, *options]


def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "XDG_CONFIG_HOME": str(tmp_path / "config")}


def run(tmp_path: Path, *words: str, **settings: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, the last line of the output, and standard error."""
    done = subprocess.run(
        command(tmp_path, *words, **settings),
        cwd=ROOT,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    last = done.stdout.splitlines()[-1:] or ["{}"]
    return done.returncode, json.loads(last[0]), done.stderr


def verified(tmp_path: Path, folder: str) -> bool:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "verify", folder, "--json"],
        cwd=ROOT,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    return bool(json.loads(done.stdout)["verified"])


@pytest.mark.alone
def test_the_boundary_of_a_server_with_four_slots_lies_between_what_is_certified(
    server: TruthServer, tmp_path: Path
) -> None:
    """At 4 streams nobody waits; at 8 half of the requests do, and each for half a reply and more."""
    code, told, err = run(
        tmp_path,
        *("capacity", server.base_url, "--slo", "e2e:p75:60ms", "--slo", "e2e:p75:1ms", "--replicates", "3"),
        *("--from", str(SLOTS), "--to", str(2 * SLOTS), "--step", str(SLOTS)),
    )
    assert code in {Exit.CLAIM_FAILED, Exit.INVALID}, err  # a busy machine may spoil a window, and then says so
    outcome, nobody_can = told["searches"]
    assert nobody_can["answer"] == "holds nowhere"
    proofs = {proof["value"]: proof["settled"] for proof in outcome["proofs"]}
    assert proofs == {SLOTS: "holds", 2 * SLOTS: "does not hold"}, outcome
    assert verified(tmp_path, told["folder"])
    report = json.loads((Path(told["folder"]) / files.REPORT).read_bytes())
    (check,) = (each for each in report["checks"] if each["rule"] == "the points are those that the search asks for")
    assert check["verdict"] == "kept"
    # What is signed cannot be edited into another answer.
    recipe = Path(told["folder"]) / files.RECIPE
    recipe.write_text(recipe.read_text().replace("streams = 4", "streams = 5", 1))
    assert not verified(tmp_path, told["folder"])


@pytest.mark.alone
@pytest.mark.thorough
def test_a_frontier_over_turn_gaps(server: TruthServer, tmp_path: Path) -> None:
    """Eight streams keep four slots busy when they answer at once, and hardly ever when they wait 0.15 s."""
    code, told, err = run(
        tmp_path,
        *("frontier", server.base_url, "--slo", "e2e:p75:60ms", "--streams", "8", "--replicates", "3"),
        *("--vary", "workload.turn_gap=0.005..0.15", "--values", "2"),
    )
    assert code in {Exit.OK, Exit.INVALID}, err
    (outcome,) = told["searches"]
    proofs = {proof["value"]: proof["settled"] for proof in outcome["proofs"]}
    assert proofs == {0.005: "does not hold", 0.15: "holds"}, outcome
    assert verified(tmp_path, told["folder"])


def until_points_ended(client: subprocess.Popen[str], tmp_path: Path, count: int) -> Path:
    """The folder, once so many points are over."""
    wait = threading.Event()
    for _ in range(1200):
        for seen in (tmp_path / "reports").glob(f"cpu/*/{files.OBSERVATIONS}"):
            if seen.read_text().count('"phase":"done"') >= count:
                return seen.parent
        assert client.poll() is None, client.communicate()
        wait.wait(0.05)
    raise AssertionError("no point ended")


@pytest.mark.parametrize(
    "how", ["Ctrl-C", "the server dies", pytest.param("the client is killed", marks=pytest.mark.thorough)]
)
def test_what_ends_a_search_leaves_a_report_of_what_it_knew(server: TruthServer, tmp_path: Path, how: str) -> None:
    client = subprocess.Popen(
        command(tmp_path, "capacity", server.base_url, "--slo", "e2e:p75:60ms", "--to", "12"),
        cwd=ROOT,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        folder = until_points_ended(client, tmp_path, 1)
        if how == "Ctrl-C":
            client.send_signal(signal.SIGINT)
        elif how == "the server dies":
            server.process.kill()
        else:
            client.kill()
        client.communicate(timeout=60)
    finally:
        client.kill()
        client.communicate()
    if how == "the client is killed":
        finished = subprocess.run(
            [sys.executable, "-m", "bench", "finish", str(folder)],
            cwd=ROOT,
            env=environment(tmp_path),
            capture_output=True,
            check=False,
        )
        assert finished.returncode == Exit.FAILURE
    else:
        assert client.returncode == (Exit.INTERRUPTED if how == "Ctrl-C" else Exit.FAILURE)
    report = json.loads((folder / files.REPORT).read_bytes())
    assert report["partial"]
    assert report["searches"][0]["answer"] == "cut off"
    assert len(report["points"]) >= 1
    assert verified(tmp_path, str(folder))


@pytest.mark.parametrize(
    ("words", "because"),
    [
        (("capacity", "--slo", "e2e:p95"), "three parts"),
        (("capacity", "--from", "9", "--to", "8"), "--from 9 is above --to 8"),
        (("frontier", "--vary", "load.turn_gap.mean_s=16..2"), "the range must begin above 0"),
        (("frontier", "--vary", "load.turn_gap.mean"), "Did you mean load.turn_gap.mean_s?"),
        (("frontier", "--claim", "nobody"), "no such claim"),
        (("frontier", "--vary", "workload.output_tokens=8..64"), "another engine start"),
    ],
)
def test_wrong_usage_is_told_before_anything_is_started(tmp_path: Path, words: tuple[str, ...], because: str) -> None:
    name, *options = words
    with pytest.raises(UsageError) as refused:
        CliRunner().invoke(app, command(tmp_path, name, "http://127.0.0.1:9", *options)[3:], catch_exceptions=False)
    assert because in str(refused.value)
    assert not (tmp_path / "reports").exists()
