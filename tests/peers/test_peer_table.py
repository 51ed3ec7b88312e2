from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from rich.console import Console
from typer.testing import CliRunner

from bench.errors import Exit, UsageError
from bench.peers import __main__ as peers_main
from bench.peers import cli, goals
from bench.peers.__main__ import main
from bench.peers.cli import _loads, _tool, _write, app
from bench.peers.compare import Comparison
from bench.peers.row import Row
from bench.peers.table import COLUMNS, cells, markdown, tables
from tests.peers.standin import Standin

GOOD = Row(
    tool="ours",
    version="abc",
    load="16 in flight",
    round=1,
    asked=16,
    note="counts its window",
    seconds=20.0,
    first_s=0.5,
    cpu_s=4.0,
    cpu_window_s=2.0,
    peak_mb=100.0,
    comparison=Comparison(
        requests=300,
        uncounted=20,
        miscounted=0,
        truth_e2e_ms=(600.0, 765.0, 850.0),
        truth_ttft_ms=(210.0, 268.0, 298.0),
        e2e_error_ms=(0.1, -0.2, 0.3),
        ttft_error_ms=(0.1, 0.2, -0.3),
        in_flight=15.95,
        window_s=(0.0, 10.0),
        window_requests=260,
        first_s=0.0,
    ),
)
PEER = replace(GOOD, tool="peer", version="1", cpu_s=60.0, note="")


def worse(row: Row, **changes: object) -> Row:
    assert row.comparison is not None
    return replace(row, comparison=replace(row.comparison, **changes))  # type: ignore[arg-type]


def test_each_cell_is_the_worst_of_the_rounds() -> None:
    second = worse(replace(GOOD, round=2, cpu_s=3.0, peak_mb=120.0), e2e_error_ms=(-12.34, 0.1, 0.2), miscounted=2)
    second = worse(second, in_flight=15.0)
    assert cells([GOOD, second]) == [
        ("ours abc", "-12.3/-0.20/+0.30", "+0.10/+0.20/-0.30", "2", "4.0 (2.0)", "120", "15.0 of 16", "0.5")
    ]


def test_a_failure_and_an_inability_are_lines() -> None:
    failed = replace(GOOD, round=2, comparison=None, error="it ended with status 1")
    assert [line[-1] for line in cells([GOOD, failed])] == ["0.5", "failed in round 2: it ended with status 1"]
    assert cells([failed]) == [("ours abc", "failed in round 2: it ended with status 1")]
    assert cells([replace(failed, error=None, cannot="no gaps")]) == [("ours abc", "cannot: no gaps")]


def test_a_table_has_every_tool_once_a_load() -> None:
    rows = [GOOD, replace(PEER, comparison=None, error="a | b"), replace(GOOD, load="60 in flight", asked=None)]
    text = markdown(rows, "today, here", ["ours, a goal"])
    assert "today, here" in text
    assert "missed:\n\n- ours, a goal\n" in text
    assert "met all of its goals" in markdown(rows, "", [])
    assert text.count("| ours abc |") == 2
    assert "| peer 1 | failed in round 1: a / b |" in text
    assert text.count("## ") == 2
    assert all(column in text for column in COLUMNS)
    assert "- ours: counts its window." in text
    widths = {line.count("|") for line in text.splitlines() if line.startswith("|")}
    assert widths == {len(COLUMNS) + 1}
    console = Console(width=110, file=io.StringIO())
    with console.capture() as captured:
        console.print(*tables(rows))
    said = captured.get()
    assert said.count("+0.10/-0.20/+0.30") == 2
    assert "peer 1 failed in round 1: a | b" in said


def test_unknown_figures_are_not_known() -> None:
    assert cells([replace(GOOD, cpu_window_s=None)])[0][4] == "4.0 (not known)"


def test_goals() -> None:
    assert goals.broken([GOOD, PEER]) == []
    bad = worse(
        replace(GOOD, cpu_s=6.5, first_s=3.5),
        e2e_error_ms=(0.0, -1.1, 0.0),
        ttft_error_ms=(0.0, 0.0, 1.2),
        miscounted=1,
        in_flight=15.0,
    )
    lines = goals.broken([bad, PEER])
    assert [line.split(": ", 1)[1].split(" ")[0] for line in lines] == [
        "E2E",
        "TTFT",
        "requests",
        "first",
        "CPU",
        "CPU,",
        "in",
    ]
    assert all(line.startswith("ours, 16 in flight, round 1: ") for line in lines)
    assert goals.broken([replace(bad, tool="other"), PEER]) == []
    assert goals.broken([replace(GOOD, comparison=None, error="gone")]) == ["ours, 16 in flight, round 1: gone"]
    assert goals.broken([replace(GOOD, comparison=None, cannot="no")]) == []
    assert goals.broken([GOOD, replace(PEER, cpu_s=15.0)]) == [
        "ours, 16 in flight, round 1: CPU, against a tenth of the best peer's 4 > 1.5 s"
    ]


def test_help_teaches() -> None:
    said = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"})
    assert said.exit_code == 0
    for word in ("--in-flight", "--find-limit", "--rounds", "--json", "guidellm", "Exit code 4"):
        assert word in said.output


def test_loads_last_as_long_as_asked() -> None:
    assert [(load.name, load.requests) for load in _loads(None, None, None, 15.0)] == [
        ("16 in flight", 396),
        ("60 in flight", 1484),
        ("60 streams, 2 s apart", 345),
        ("16 in flight, one in 8 fails", 396),
    ]
    assert [load.name for load in _loads([3], [4], [], 1.0)] == ["3 in flight", "4 streams, 2 s apart"]


def test_an_unknown_tool() -> None:
    with pytest.raises(UsageError, match='no tool "wrk"'):
        _tool("wrk")


def test_the_file_holds_every_row(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("out") / "deep" / "rows.json"
    _write(path, [GOOD, replace(PEER, comparison=None, error="e")], [])
    made = orjson.loads(path.read_bytes())
    assert [row["error"] for row in made["rows"]] == [None, "e"]
    assert made["rows"][0]["comparison"]["e2e_error_ms"] == [0.1, -0.2, 0.3]
    assert made["host"]["kernel"]
    assert made["script"]["law"]["e2e_p50_s"] == 0.6
    _write(None, [GOOD], [])


def test_the_command_runs_shows_and_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "TOOLS", {"one": Standin(), "two": Standin("badly", name="two")})
    files = ["--json", str(tmp_path / "rows.json"), "--markdown", str(tmp_path / "rows.md")]
    said = CliRunner().invoke(
        app, ["--in-flight", "1", "--rounds", "1", "--seconds", "1", "--server-core", "-1", *files]
    )
    assert said.exit_code == 0, said.output
    assert "round 1, 1 in flight: two" in said.output
    assert [row["tool"] for row in orjson.loads((tmp_path / "rows.json").read_bytes())["rows"]] == ["stand-in", "two"]
    text = (tmp_path / "rows.md").read_text()
    assert "1 round of about 1 s a load, on" in text
    assert "it ended with status 3; it said: cannot send to SERVER" in text


def test_a_missed_goal_is_an_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "TOOLS", {"ours": Standin("badly", name="ours")})
    said = CliRunner().invoke(app, ["--in-flight", "1", "--rounds", "1", "--server-core", "-1"])
    assert said.exit_code == Exit.INVALID
    assert "MISSED ours, 1 in flight, round 1: it ended with status 3" in said.output


def test_the_ladder_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "TOOLS", {"one": Standin("mute")})
    file, text = tmp_path / "limit.json", tmp_path / "limit.md"
    said = CliRunner().invoke(
        app, ["--find-limit", "--rate", "4", "--seconds", "1", "--json", str(file), "--markdown", str(text)]
    )
    assert said.exit_code == 0, said.output
    assert "stand-in: within 5 ms at no rate; at 4: it left no result.json" in said.output
    assert "- stand-in: within 5 ms at no rate" in text.read_text()
    made = orjson.loads(file.read_bytes())
    assert made["limits"] == [{"tool": "stand-in", "good": None, "passed": 4.0, "why": "it left no result.json"}]
    assert len(made["rows"]) == 1


def test_a_wrong_command_line_is_one_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench.peers", "--tool", "wrk"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == Exit.USAGE
    assert capsys.readouterr().err == (
        'error: there is no tool "wrk"\n  do: There are: ours, vllm, guidellm, aiperf, inference-perf.\n'
    )


def test_a_termination_is_an_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def command(**_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()

    monkeypatch.setattr(peers_main, "app", command)
    try:
        with pytest.raises(SystemExit) as caught:
            main()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert caught.value.code == Exit.INTERRUPTED


def test_the_core_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 2, 3})
    assert [cli._server_core(asked) for asked in (None, 2, -1)] == [3, 2, None]
    with pytest.raises(UsageError, match="--server-core 1: this process may not use that core"):
        cli._server_core(1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert cli._server_core(None) is None


def test_rows_that_were_done_survive_an_interruption(tmp_path: Path) -> None:
    def steps() -> Iterator[Row]:
        yield GOOD
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cli._collect(steps(), Console(quiet=True), tmp_path / "rows.json")
    assert len(orjson.loads((tmp_path / "rows.json").read_bytes())["rows"]) == 1
