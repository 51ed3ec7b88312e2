"""`just steps` on report folders: what it says, and what it refuses."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from rich.console import Console
from typer.testing import CliRunner

from bench.cli import app
from bench.errors import StreamproofError, UsageError
from bench.explain.preflight.command import plan
from bench.explain.preflight.lines_work import floor_lines
from bench.explain.steps import read as read_module
from bench.explain.steps.analysis import Analysis, PointSteps, analyse
from bench.explain.steps.parts import Name, Part
from bench.explain.steps.show import CELLS, bar, shown
from bench.records import Outcome
from bench.report import folder_files as files
from bench.report import verify
from tests.explain.compare.sides import REQUESTS
from tests.explain.compare.sides import report as several_runs
from tests.explain.steps.schedules import LONG_S, TTFT_S, report, served
from tests.report.factories import DRAIN, STEADY, healthy_records, make_failure, make_recipe, make_record
from tests.report.harm import EVERYWHERE, Hostile

if TYPE_CHECKING:
    from pathlib import Path

    from tests.report.folders import Signed

SERVED = served(in_flight=16, stall=(700, 9.2))
STOOD_S = STEADY + 1.0 + float(SERVED.step_s[:700].sum()) + 4.6
"""In the middle of the standstill."""
WAITED = sum((record.sent_s or 0) < STOOD_S < record.done_s for record in SERVED.records)
RECIPE = make_recipe(
    workload={"prompt_tokens": 400},
    checkpoint={"kind": "hub", "name": "Qwen/Qwen3.5-35B-A3B-FP8"},
    engine={"flags": {"stream_interval": 4}},
)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Signed:
    others = [
        make_record(primed=True, stream=-1, intended_s=0.1),
        make_record(intended_s=STEADY - 1, request=90_000),
        make_record(intended_s=DRAIN + 1, request=90_001),
        make_failure(Outcome.CUT, intended_s=STEADY + 2, done_s=STEADY + 3, request=90_002),
    ]
    return report(tmp_path_factory.mktemp("steps"), [*others, *SERVED.records], recipe=RECIPE)


def printed(analysis: Analysis, width: int) -> str:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(shown(analysis))
    return console.export_text()


def test_the_replies_of_the_window_are_taken_apart(measured: Signed) -> None:
    point = analyse(measured.path).points[0]
    n = len(SERVED.records)
    assert (point.replies, point.requests, point.chunks) == (n, n + 1, SERVED.chunks)
    assert point.e2e_s == pytest.approx(sum(part.mean_s for part in point.parts), abs=1e-9)
    assert point.e2e_s == pytest.approx(measured.report.points[0].e2e.mean, abs=1e-9)
    parts = {part.name: part for part in point.parts}
    assert (parts["first token"].p50_s, parts["first token"].p95_s) == pytest.approx((TTFT_S, TTFT_S))
    assert (parts["long"].count or 0) * n == pytest.approx(SERVED.long_gaps - (parts["rare"].count or 0) * n)
    assert point.stood is not None
    assert point.stood.standstill.seconds == pytest.approx(9.2)
    assert point.stood.standstill.in_flight == WAITED > 10
    assert point.stood.at_s == pytest.approx(1.0 + SERVED.step_s[:700].sum())


def test_what_else_is_known_stands_beside_it(measured: Signed) -> None:
    known = analyse(measured.path).points[0].known
    prompts = len(SERVED.records) + 4
    assert known.prompt_tokens == pytest.approx((100 * (prompts - 1)) / prompts, abs=1.01)
    assert known.counted == pytest.approx(known.prompt_tokens - 64 * (prompts - 2) / prompts, abs=1)
    assert known.tokens_a_chunk == 1.0
    assert known.floors is not None
    assert (known.floors.card, known.floors.sequences) == ("H200", round(measured.report.points[0].mean_in_flight or 0))
    lines = {line.key: line.value for line in floor_lines(plan(RECIPE, offline=True), {})}
    assert known.floors.prefill_s == lines["floor.prefill"]
    assert (lines["floor.decode.1"] or 0) < known.floors.decode_s < (lines["floor.decode.16"] or 0)


def test_the_command_shows_it(measured: Signed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    result = CliRunner().invoke(app, ["steps", str(measured.path)])
    assert result.exit_code == 0, result.output
    for text in (
        "1 of ",
        "requests failed and are left out",
        "rare gaps",
        "Longest standstill",
        "9.20 s",
        f"{WAITED} in flight",
    ):
        assert text in result.output, result.output
    assert "A long gap takes" in result.output
    assert "takes the H200" in result.output
    assert "send a chunk for every 4 tokens" in result.output


def test_scripts_get_the_same(measured: Signed) -> None:
    result = CliRunner().invoke(app, ["steps", str(measured.path), "--json"])
    data = json.loads(result.output)
    assert data["schema"] == "streamproof.steps/1"
    (point,) = data["points"]
    assert sum(part["mean_s"] for part in point["parts"]) == pytest.approx(point["e2e_s"], abs=1e-9)
    assert [part["name"] for part in point["parts"]] == ["client", "first token", "long", "short", "rare", "end"]
    assert point["kinds"]["one"] is None
    assert 0.012 < point["kinds"]["cut_s"] < LONG_S
    assert point["kinds"]["rare_s"] > 9
    assert point["standstill"]["seconds"] == pytest.approx(9.2)
    assert point["known"]["floors"]["card"] == "H200"
    assert data["stream_interval"] == 4


def test_a_smooth_server_is_said_to_be_one(tmp_path: Path) -> None:
    analysis = analyse(report(tmp_path, served(every=0).records).path)
    text = printed(analysis, 100)
    assert "Gaps are of one kind: no valley" in text
    assert "long gaps" not in text
    assert "No floors: " in text


def test_a_point_without_a_complete_reply_says_so(tmp_path: Path) -> None:
    failures = [
        make_failure(Outcome.CUT, intended_s=STEADY + number, done_s=STEADY + number + 0.5, request=number)
        for number in range(5)
    ]
    folder = report(tmp_path, failures).path
    analysis = analyse(folder)
    assert analysis.points[0].parts == ()
    assert "20 streams: no complete reply in the window of 5 requests" in printed(analysis, 100)
    (point,) = json.loads(CliRunner().invoke(app, ["steps", str(folder), "--json"]).output)["points"]
    assert (point["e2e_s"], point["kinds"], point["parts"]) == (None, None, [])


@pytest.mark.parametrize("width", [80, 120])
def test_it_fits_the_terminal(measured: Signed, width: int) -> None:
    analysis = analyse(measured.path)
    tiny = Part(name="together", mean_s=8.31e-7, share=0, count=0.0167, p50_s=4.98e-5, p95_s=4.98e-5, slowest_s=1.01e-5)
    point = replace(analysis.points[0], parts=(*analysis.points[0].parts, tiny))
    lines = printed(replace(analysis, points=(point,)), width).splitlines()
    assert max(map(len, lines)) <= width
    assert not any("…" in line for line in lines)  # nothing is cut off
    assert any("0.000831 ms" in line and "0.0101 ms" in line for line in lines)  # nor broken
    assert sum(line.startswith("▒") and len(line.rstrip()) == CELLS for line in lines) == 1


@pytest.mark.parametrize("shares", [(0.5, 0.5), (1 / 3, 1 / 3, 1 / 3), (0.999, 0.0005, 0.0005), (1.0, -1e-9)])
def test_the_bar_is_always_full(shares: tuple[float, ...]) -> None:
    names: tuple[Name, ...] = ("first token", "long", "short")
    parts = [
        Part(name=name, mean_s=share, share=share, count=1, p50_s=share, p95_s=None, slowest_s=None)
        for name, share in zip(names, shares, strict=False)
    ]
    assert len(bar(parts).plain) == CELLS


def test_what_a_report_names_commands_no_terminal(measured: Signed) -> None:
    analysis = analyse(measured.path)
    evil: PointSteps = replace(analysis.points[0], label="\x1b[2J[red]x")
    text = printed(replace(analysis, target="\x1b]0;x\x07", title="\x1b[31m", points=(evil,)), 120)
    assert "\x1b" not in text
    assert "[red]x" in text


def test_what_a_report_names_is_no_markup_while_it_is_read(measured: Signed, tmp_path: Path) -> None:
    folder = measured.copy(tmp_path / "copy").path
    (folder / files.ATTESTATION).unlink()
    raw = json.loads((folder / files.REPORT).read_bytes())
    raw["points"][0]["label"] = "[/x]"
    (folder / files.REPORT).write_bytes(files.canonical_json(raw))
    result = CliRunner().invoke(app, ["steps", str(folder)])
    assert result.exit_code == 0, result.exception
    assert "[/x]: " in result.output


@pytest.mark.parametrize("name", [files.OBSERVATIONS, files.RECIPE, files.REPORT, files.RECORDS])
def test_a_report_that_was_edited_is_refused(measured: Signed, tmp_path: Path, name: str) -> None:
    path = measured.copy(tmp_path / "copy").path / name
    raw = path.read_bytes()
    path.write_bytes(raw[:-20] + bytes([raw[-20] ^ 1]) + raw[-19:])
    with pytest.raises(StreamproofError, match="changed after it was signed") as refused:
        analyse(path.parent)
    assert "just verify" in refused.value.remedy


def test_figures_of_other_records_are_refused(measured: Signed, tmp_path: Path) -> None:
    folder = measured.copy(tmp_path / "copy").path
    (folder / files.ATTESTATION).unlink()
    raw = json.loads((folder / files.REPORT).read_bytes())
    raw["points"][0]["e2e"]["mean"] *= 1.01
    (folder / files.REPORT).write_bytes(files.canonical_json(raw))
    with pytest.raises(StreamproofError, match="its records give"):
        analyse(folder)


def test_chunks_out_of_order_are_refused(measured: Signed, tmp_path: Path) -> None:
    folder = measured.copy(tmp_path / "copy").path
    (folder / files.ATTESTATION).unlink()
    rows: list[dict[str, Any]] = pq.read_table(folder / files.RECORDS).to_pylist()
    schema = pq.read_schema(folder / files.RECORDS)
    rows[-1]["chunk_s"] = rows[-1]["chunk_s"][::-1]
    pq.write_table(schema.empty_table().from_pylist(rows, schema=schema), folder / files.RECORDS, store_schema=False)
    with pytest.raises(StreamproofError, match="not in order"):
        analyse(folder)


def endless_signature(folder: Path) -> None:
    (folder / files.ATTESTATION).symlink_to("/dev/zero")


@pytest.mark.parametrize(
    "hostile",
    [
        *EVERYWHERE,
        Hostile(endless_signature, "cannot be opened: Too many levels of symbolic links"),
    ],
    ids=lambda each: each.make.__name__,
)
def test_what_is_made_to_do_harm_is_refused(measured: Signed, hostile: Hostile, tmp_path: Path) -> None:
    folder = measured.copy(tmp_path / "copy").path
    (folder / files.ATTESTATION).unlink()
    hostile.make(folder)
    with pytest.raises(StreamproofError, match=hostile.why):
        analyse(folder)


def test_no_report_takes_longer_than_a_verification_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "CPU_S", 0.001)
    with pytest.raises(StreamproofError, match="CPU time"), read_module.bounded(tmp_path):
        work()


def work() -> None:
    """Seconds of it, and more than a tick of the kernel, which a small report need not take."""
    for _ in range(10**8):
        pass


def test_no_report_takes_more_memory_than_a_verification_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "MEMORY_BYTES", 1 << 20)
    with pytest.raises(StreamproofError, match="of memory"), read_module.bounded(tmp_path):
        bytearray(1 << 30)


def test_a_folder_without_a_report_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds no report\.json") as refused:
        analyse(tmp_path)
    assert "just finish" in refused.value.remedy


def test_a_server_that_was_not_started_here_has_no_floors(measured: Signed, tmp_path: Path) -> None:
    folder = measured.copy(tmp_path / "copy").path
    (folder / files.ATTESTATION).unlink()
    raw = json.loads((folder / files.REPORT).read_bytes()) | {"engine_kind": "external"}
    (folder / files.REPORT).write_bytes(files.canonical_json(raw))
    analysis = analyse(folder)
    assert analysis.points[0].known.floors is None
    assert "not started here" in analysis.no_floors
    assert analysis.stream_interval == 1


def test_healthy_reports_of_other_tests_can_be_read(tmp_path: Path) -> None:
    """Two chunks a reply: one gap each, all alike."""
    analysis = analyse(report(tmp_path, healthy_records((0.5,) * 200)).path)
    assert [part.name for part in analysis.points[0].parts] == ["client", "first token", "gaps", "end"]


def test_runs_are_taken_together_and_a_standstill_names_its_run(tmp_path: Path) -> None:
    analysis = analyse(several_runs(tmp_path, runs=2).path)
    assert [(point.runs, point.replies) for point in analysis.points] == [(2, 2 * REQUESTS)] * 2
    point = analysis.points[0]
    assert point.stood is not None
    assert f"into the window of run {point.stood.run}, " in printed(analysis, 120)
