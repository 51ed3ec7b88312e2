from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bench.engine.install import Installation
from bench.engine.pins import REPOSITORY, load_pins
from bench.errors import StreamproofError
from bench.peers import cost, environments, limit
from bench.peers.environments import Place, ensure, find_python
from bench.peers.guidellm import GuideLLM
from bench.peers.limit import Limit, beyond, climb
from bench.peers.load import Load
from bench.peers.ours import Ours
from bench.peers.row import Row
from bench.peers.runner import last_line, one, places, rounds
from bench.peers.tool import Tool
from tests.peers.standin import Standin

HERE = Place(python=Path(sys.executable), version="1.0")
TWO = Load(requests=2, in_flight=1)


def test_a_tool_that_works() -> None:
    row = one(Standin(), HERE, TWO, 1, server_core=None)
    assert row.error is None
    assert row.comparison is not None
    assert (row.comparison.requests, row.comparison.miscounted) == (2, 0)
    # The server counts from the request's first byte to the reply's last: within what the tool saw.
    assert min(row.comparison.e2e_error_ms) >= 0
    assert max(row.comparison.ttft_error_ms) < 0  # it claims 0, and the server knows better
    assert row.counted is not None
    assert "tags" not in row.counted
    assert row.first_s is not None
    assert row.seconds is not None
    assert 0 < row.first_s < row.seconds
    assert row.cpu_s is not None
    assert row.cpu_s > 0
    assert row.peak_mb is not None
    assert row.peak_mb > 1


def test_command_lines_name_no_folder_of_this_host() -> None:
    row = one(Standin(), HERE, TWO, 1, server_core=None)
    assert row.command == (
        f"ENV/bin/{HERE.python.name}",
        "./tests/peers/standin_tool.py",
        "well",
        "SERVER",
        "OUT/result.json",
    )


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("badly", "it ended with status 3; it said: cannot send to SERVER"),
        ("mute", "it left no result.json"),
    ],
)
def test_a_tool_that_fails_has_a_row_with_its_error(how: str, error: str) -> None:
    row = one(Standin(how), HERE, TWO, 1, server_core=None)
    assert row.error == error
    assert row.comparison is None
    assert row.seconds is not None


def test_what_cannot_be_run_has_a_row_too() -> None:
    row = one(Standin(), HERE, Load(requests=1, streams=2), 1, server_core=None)
    assert row.cannot == "it knows no streams"
    row = one(Standin(), "no room", TWO, 1, server_core=None)
    assert row.error == "not installed: no room"


def test_a_tool_that_cannot_be_installed_does_not_stop_the_others() -> None:
    def ensure_one(tool: Tool) -> Place:
        if tool.name == "b":
            raise StreamproofError("no Python for it")
        return HERE

    found = places([Standin(name="a"), Standin(name="b")], ensure_one)
    assert found == {"a": HERE, "b": "no Python for it"}


def test_rounds_are_interleaved() -> None:
    tools = [Standin(name="a"), Standin(name="b")]
    where: dict[str, Place | str] = {"a": "x", "b": "y"}
    loads = [TWO, replace(TWO, in_flight=2)]
    rows = list(rounds(tools, where, loads, count=2, server_core=None))
    assert [(row.round, row.asked, row.tool) for row in rows] == [
        (number, asked, tool) for number in (1, 2) for asked in (1, 2) for tool in ("a", "b")
    ]


def test_our_own_client_is_a_tool_like_any_other() -> None:
    row = one(Ours(), HERE, Load(requests=8, in_flight=4), 1, server_core=None)
    assert row.error is None
    assert row.comparison is not None
    assert row.comparison.miscounted == 0
    assert row.comparison.requests >= 4
    assert row.comparison.uncounted > 0  # primes and ramp


def test_our_own_client_counts_every_failure() -> None:
    row = one(Ours(), HERE, Load(requests=80, in_flight=20, faulty=True), 1, server_core=None)
    assert row.error is None
    assert row.comparison is not None
    assert row.counted is not None
    assert row.counted["failed"] > 0
    assert row.comparison.miscounted == 0
    assert row.asked is None


def test_a_ladder_ends_where_the_error_passes() -> None:
    steps = list(climb(Standin("mute"), HERE, rates=(5.0, 6.0), seconds=0.4, server_core=None))
    assert isinstance(steps[0], Row)
    assert steps[1:] == [Limit(tool="stand-in", good=None, passed=5.0, why="it left no result.json")]
    assert isinstance(steps[1], Limit)
    assert steps[1].text == "stand-in: within 5 ms at no rate; at 5: it left no result.json"


def test_a_ladder_that_is_climbed_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def within(row: Row, rate: float) -> str:
        asked.append((row.load, rate))
        return ""

    monkeypatch.setattr(limit, "beyond", within)
    *_, last = climb(Standin(), HERE, rates=(5.0, 10.0), seconds=0.4, server_core=None)
    assert last == Limit(tool="stand-in", good=10.0, passed=None, why="")
    assert asked == [("5 a second", 5.0), ("10 a second", 10.0)]


def test_beyond_the_limit() -> None:
    row = one(Standin(), HERE, TWO, 1, server_core=None)
    assert row.comparison is not None
    good = replace(row.comparison, window_s=(0.0, 10.0), window_requests=100, e2e_error_ms=(1.0, -4.9, 4.0))
    assert not beyond(replace(row, comparison=good), 10.0)
    assert (
        beyond(replace(row, comparison=replace(good, e2e_error_ms=(0.0, -5.1, 1.0))), 10.0) == "its E2E is -5.1 ms off"
    )
    assert beyond(replace(row, comparison=good), 11.0) == "it sent 10.0 a second"
    both = replace(good, e2e_error_ms=(0.0, 7.0, 1.0))
    assert beyond(replace(row, comparison=both), 11.0) == "it sent 10.0 a second and its E2E is +7.0 ms off"
    assert beyond(replace(row, comparison=None, cannot="no"), 1.0) == "no"
    top = Limit(tool="t", good=320.0, passed=None, why="")
    assert top.text == "t: within 5 ms up to 320 a second, the end of the ladder"


def run(code: str, folder: Path, timeout_s: float = 30.0) -> cost.Cost:
    command = [sys.executable, "-c", code]
    return cost.run(command, env={}, cwd=folder, log=folder / "log", timeout_s=timeout_s)


def test_the_cpu_of_children_counts(tmp_path: Path) -> None:
    burn = "import time\\nwhile time.process_time() < 0.3: pass"
    took = run(f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', '{burn}'])", tmp_path)
    assert took.exit_code == 0
    assert took.cpu_s > 0.25  # the kernel rounds what it charges to a process that has ended
    assert took.peak_mb > 1
    assert took.cpu_between(took.started_s - 1, took.started_s) is None
    assert took.looks[-1] == cost.Look(took.ended_s, took.cpu_s, 0.0)


def test_a_tool_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    took = run("import subprocess, sys\nsubprocess.run(['sleep', '1000'])", tmp_path, timeout_s=0.1)
    assert took.timed_out
    assert took.exit_code == -9


def test_an_interruption_ends_the_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[int] = []

    def interrupted(pid: int, options: int) -> None:
        del options
        waited.append(pid)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "wait4", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run("import time; time.sleep(1000)", tmp_path)
    with pytest.raises(ProcessLookupError):
        os.kill(waited[0], 0)


def test_cpu_between_looks_is_interpolated() -> None:
    looks = (cost.Look(0.0, 0.0, 1.0), cost.Look(1.0, 0.5, 3.0), cost.Look(2.0, 2.5, 2.0))
    took = cost.Cost(exit_code=0, timed_out=False, started_s=0.0, ended_s=2.0, cpu_s=2.5, peak_mb=3.0, looks=looks)
    assert took.cpu_between(0.5, 1.5) == pytest.approx(1.25)
    assert took.cpu_between(0.5, 2.5) is None


def test_what_a_tool_said_last(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("first\nValueError: why\n \n-----\n")
    assert last_line(log) == "ValueError: why"
    log.write_text("")
    assert not last_line(log)


def test_pins_of_the_peers_are_locked() -> None:
    pins = load_pins()
    assert set(pins.peers) == {"guidellm", "aiperf", "inference-perf"}
    for pin in pins.peers.values():
        assert f"{pin.package}=={pin.version} \\" in (REPOSITORY / pin.lock).read_text()


def test_our_environment_is_the_one_that_runs() -> None:
    assert ensure(Ours(), say=print, terminal=False).python == Path(sys.executable)


def test_a_peer_is_installed_from_its_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted: list[Installation] = []
    monkeypatch.setattr(Installation, "ensure", lambda asked: wanted.append(asked))  # noqa: PLW0108  a built-in is no method
    place = ensure(GuideLLM(), say=print, terminal=False)
    (installation,) = wanted
    assert place == Place(python=installation.target / "bin" / "python", version="0.8.1")
    assert installation.lock.name == "peer-guidellm.txt"
    assert installation.interpreter == Path(sys.executable)
    assert installation.target.parent.name == "peers"


def test_a_python_that_pyenv_keeps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def keep(version: str, says: str) -> Path:
        python = tmp_path / version / "bin" / f"python{version[:4]}"
        python.parent.mkdir(parents=True)
        python.write_text(f"#!/bin/sh\n{says}\n")
        python.chmod(0o755)
        return python

    keep("3.97.1", "exit 127")  # a launcher of a version that is switched off
    keep("3.98.2", "echo 3.11")
    right = keep("3.99.0", "echo 3.99")
    monkeypatch.setattr(environments, "_PYENV", tmp_path)
    assert find_python(["3.97", "3.98", "3.99"]) == right


def test_a_python_that_is_not_there() -> None:
    assert find_python([f"{sys.version_info.major}.{sys.version_info.minor}"]) == Path(sys.executable)
    with pytest.raises(StreamproofError, match=r"no Python 3\.99 is on the path"):
        find_python(["3.99"])
