from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench.cli import app
from bench.errors import Exit, UsageError
from bench.explain.doctor.command import doctor
from tests.explain.doctor import scenes as s

HEALTHY = s.STARTS / "h200-healthy.log"
KNOWN = s.STARTS / "h200-gpu-held.log"
UNKNOWN = s.STARTS / "cpu-died.log"
RUNNER = CliRunner()


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """No path is broken, however long the folder's is that a test gets."""
    monkeypatch.setenv("COLUMNS", "400")


@pytest.fixture
def downgraded(tmp_path: Path) -> Path:
    path = tmp_path / "downgraded.log"
    line = s.info("compilation.py:1", "something; setting cudagraph_mode=PIECEWISE", "WARNING")
    path.write_text("\n".join(s.with_lines(s.start(), line)))
    return path


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    path = tmp_path / "empty.log"
    path.touch()
    return path


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("path", "code"), [(HEALTHY, Exit.OK), (KNOWN, Exit.CLAIM_FAILED), (UNKNOWN, Exit.INVALID), (s.DATA, Exit.FAILURE)]
)
def test_the_exit_code_says_what_was_found(path: Path, code: Exit) -> None:
    assert doctor([path]) == code


def test_a_downgrade_and_an_empty_log_have_their_codes(downgraded: Path, empty: Path) -> None:
    assert doctor([downgraded]) == Exit.CLAIM_FAILED
    assert doctor([empty]) == Exit.FAILURE


def test_of_several_logs_the_worst_counts(empty: Path) -> None:
    assert doctor([HEALTHY, KNOWN, UNKNOWN]) == Exit.INVALID
    assert doctor([HEALTHY, KNOWN, empty]) == Exit.CLAIM_FAILED
    assert doctor([HEALTHY, empty]) == Exit.FAILURE


def test_the_verdict_comes_first_then_evidence_and_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    doctor([KNOWN])
    text = said(capsys)
    order = [
        "FAILED",
        "Another process holds the GPU's memory",
        "stage device-init",
        "vLLM 0.26.0",
        "14.99 of 139.8 GiB are free",
        "it is not the model's size",
        "Evidence",
        "line 24",
        "What to do",
        "nvidia-smi",
        "see pytorch/pytorch#175666",
    ]
    places = [text.index(part) for part in order]
    assert places == sorted(places)


def test_a_healthy_log_says_how_many_requests_it_answered(capsys: pytest.CaptureFixture[str]) -> None:
    doctor([s.DATA / "healthy-cpu.log"])
    assert "HEALTHY" in (text := said(capsys))
    assert "The engine started and answered 4 requests." in text


def test_an_unknown_failure_says_how_far_it_came_and_quotes(capsys: pytest.CaptureFixture[str]) -> None:
    doctor([UNKNOWN])
    text = said(capsys)
    assert "no known cause fits" in text
    assert "RuntimeError: Input tensor dtype mismatch" in text
    assert "runtime-crash" in text


def test_a_downgrade_says_what_it_costs(capsys: pytest.CaptureFixture[str], downgraded: Path) -> None:
    doctor([downgraded])
    text = said(capsys)
    assert "DOWNGRADED" in text
    assert "costs Decode steps are replayed in pieces" in text


def test_markup_of_a_log_is_printed_as_it_is(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "[bold]evil.log"
    evil = "ValueError: No available memory for the cache blocks [/nonsense] [link=http://x]y"
    path.write_text("\n".join(s.until("Available KV cache") + s.died(s.BUDGET, evil)))
    doctor([path])
    text = said(capsys)
    assert "[/nonsense] [link=http://x]y" in text
    assert "[bold]evil.log" in text


def test_without_a_version_each_fix_names_its_releases(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "excerpt.log"
    path.write_text("\n".join(s.died(s.SCRATCH, "torch.AcceleratorError: CUDA error: out of memory")))
    doctor([path])
    text = said(capsys)
    assert "vLLM before 0.26.0: Upgrade" in text
    assert "vLLM 0.26.0 and newer: The scratch cache" in text


def test_json_holds_the_whole_diagnosis(capsys: pytest.CaptureFixture[str], empty: Path) -> None:
    code = doctor([KNOWN, UNKNOWN, empty], as_json=True)
    data = json.loads(capsys.readouterr().out)
    assert data["exit_code"] == code == Exit.INVALID
    known, unknown, nothing = data["logs"]
    assert known["verdict"] == "failed"
    (diagnosis,) = known["diagnoses"]
    assert diagnosis["stage"] == "device-init"
    assert diagnosis["vllm"] == "0.26.0"
    assert diagnosis["cause"]["id"] == "gpu-still-held"
    assert diagnosis["cause"]["evidence"][0]["line"] == 24
    assert diagnosis["cause"]["fixes"][0]["run"]
    assert diagnosis["values"]["device-free"] == 14.99
    assert unknown["diagnoses"][0]["cause"] is None
    assert unknown["diagnoses"][0]["quotes"]
    assert (nothing["verdict"], nothing["problem"]) == ("no log", "The log is empty.")


def test_a_crash_loop_is_one_diagnosis(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "loop.log"
    path.write_bytes((KNOWN.read_bytes() + b"\n") * 30)
    doctor([path])
    text = said(capsys)
    assert text.count("Another process holds") == 1
    assert "of 30, all alike; the last" in text
    assert "18 more starts between these are not shown" in text


def test_the_log_with_the_cause_is_named_among_those_of_a_deployment(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    head, worker = tmp_path / "node0.log", tmp_path / "node1.log"
    head.write_text(
        "\n".join(s.until("world_size") + [f"(APIServer pid=1) {line}" for line in s.traceback(["run"], s.ECHO)])
    )
    shutil.copy(KNOWN, worker)
    assert doctor([head, worker]) == Exit.INVALID
    assert f"{head}: only echoes of a failure. Its cause is in {worker}." in said(capsys)


def test_no_log_and_standard_input_twice_are_wrong_usage() -> None:
    with pytest.raises(UsageError, match="needs a log"):
        doctor([])
    with pytest.raises(UsageError, match="once only"):
        doctor([Path("-"), Path("-")])


def test_the_command_reads_standard_input() -> None:
    result = RUNNER.invoke(app, ["doctor", "--json", "-"], input=KNOWN.read_bytes())
    assert result.exit_code == Exit.CLAIM_FAILED
    assert json.loads(result.output)["logs"][0]["file"] == "-"


def test_the_catalogue_lists_what_is_known() -> None:
    result = RUNNER.invoke(app, ["doctor", "--catalogue"])
    assert result.exit_code == 0
    assert "Graph-profiling scratch KV and graph-memory accounting" in " ".join(result.output.split())


def test_help_says_the_exit_codes() -> None:
    result = RUNNER.invoke(app, ["doctor", "--help"])
    assert "4 it failed" in " ".join(result.output.replace("│", " ").split())
