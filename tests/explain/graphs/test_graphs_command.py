"""`just graphs` on report folders: what it says, and what it refuses."""

from __future__ import annotations

import base64
import json
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bench.cli import app
from bench.errors import StreamproofError, UsageError
from bench.explain.graphs.analysis import MISS_TOKENS, analyse
from bench.observe.observations import Finished, GraphSteps, GraphTable, Observation
from bench.report import folder_files as files
from bench.report.build import build_report
from bench.report.render.html import render_page
from recipes.schema import Recipe
from tests.report.factories import healthy_observations, healthy_records, make_evidence, make_recipe, make_started
from tests.report.folders import Signed, signed

FLAGS: dict[str, Any] = {
    "cudagraph_metrics": True,
    "max_num_seqs": 64,
    "max_num_batched_tokens": 16384,
    "speculative_config": {"method": "mtp", "num_speculative_tokens": 4},
}
LOG = (
    "INFO 11-30 02:47:51 [gpu_model_runner.py:6612] Profiling CUDA graph memory: PIECEWISE=13 (largest=4095), "
    "FULL=7 (largest=320)\n"
    "INFO 11-30 02:48:20 [gpu_model_runner.py:6844] Graph capturing finished in 14 secs, took 0.75 GiB\n"
)


def recipe(**engine: Any) -> Recipe:
    return make_recipe(engine={"flags": FLAGS, **engine})


def table(t: float) -> GraphTable:
    rows: tuple[tuple[int, int, str, int], ...] = (
        (5, 5, "FULL", 300),
        (15, 20, "FULL", 200),
        (1567, 2050, "PIECEWISE", 12),
        (6480, 6480, "NONE", 3),
    )
    steps = tuple(
        GraphSteps.model_validate({"tokens": tokens, "padded": padded, "mode": mode, "count": count})
        for tokens, padded, mode, count in rows
    )
    return GraphTable(t=t, run=0, mode="FULL_AND_PIECEWISE", capture_sizes=(5, 10, 20, 320, 2050, 4095), steps=steps)


def observations(*tables: GraphTable) -> list[Observation]:
    records = healthy_records((0.5,) * 200)
    seen = sorted([*healthy_observations(records), *tables], key=lambda one: one.t)
    return [make_started(), *seen, Finished(t=seen[-1].t, run=0)]


def report(base: Path, *tables: GraphTable, of: Recipe | None = None) -> Signed:
    return signed(base, healthy_records((0.5,) * 200), observations(*tables), recipe=of or recipe())


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Signed:
    return report(tmp_path_factory.mktemp("graphs"), table(5.0), table(30.0), table(40.0))


def test_use_and_suggestion_are_those_of_the_window(measured: Signed) -> None:
    found = analyse(measured.path, graphs=None, miss_tokens=MISS_TOKENS)
    coverage = found.coverage
    assert (coverage.tables, coverage.left_out) == (2, 1)
    assert coverage.steps == 2 * 515
    assert coverage.without == {6480: 6}
    assert coverage.unused == (10, 320, 4095)
    assert found.now.list_.padded == coverage.padded == 2 * (200 * 5 + 12 * 483)
    assert found.suggested.list_.sizes == (5, 15, 1570, 6480)  # multiples of k + 1
    assert found.suggested.list_.covered == 1
    assert found.suggested.captures is not None
    assert found.suggested.captures.full == (5, 15)


def test_costs_are_those_of_the_start_where_its_log_says(measured: Signed, tmp_path: Path) -> None:
    assert analyse(measured.path, graphs=None, miss_tokens=0).now.pool_gib is None
    copy = measured.copy(tmp_path / "copy")
    (copy.path / files.engine_log(0)).write_text(LOG)
    found = analyse(copy.path, graphs=4, miss_tokens=MISS_TOKENS)
    assert found.suggested.captures is not None
    assert found.suggested.captures.graphs == 4 + 2
    assert found.suggested.seconds == pytest.approx(14 * 6 / 20)
    assert found.suggested.pool_gib == pytest.approx(0.75 * 6 / 20)


def test_fewer_graphs_can_be_asked_for(measured: Signed) -> None:
    found = analyse(measured.path, graphs=2, miss_tokens=MISS_TOKENS)
    assert len(found.suggested.list_.sizes) == 2


def test_the_command_shows_it_and_gives_it_to_scripts(measured: Signed) -> None:
    shown = CliRunner().invoke(app, ["graphs", str(measured.path)])
    assert shown.exit_code == 0, shown.output
    assert "cudagraph_capture_sizes = [5, 15, 1570, 6480]" in shown.output
    assert "never used: 10, 320, 4,095" in shown.output
    assert "6,480 (6)" in shown.output
    data = json.loads(CliRunner().invoke(app, ["graphs", str(measured.path), "--json"]).output)
    assert data["suggested"]["sizes"] == [5, 15, 1570, 6480]
    assert data["unused"] == [10, 320, 4095]
    assert data["without"] == {"6480": 6}


def test_a_report_without_metrics_names_the_flags(tmp_path: Path) -> None:
    folder = report(tmp_path, of=make_recipe()).path
    with pytest.raises(UsageError, match="no CUDA graph metrics") as refused:
        analyse(folder, graphs=None, miss_tokens=0)
    assert "engine.flags.cudagraph_metrics=true" in refused.value.remedy
    assert "VLLM_LOG_STATS_INTERVAL" in refused.value.remedy


def test_tables_outside_the_windows_ask_for_shorter_intervals(tmp_path: Path) -> None:
    folder = report(tmp_path, table(5.0)).path
    with pytest.raises(UsageError, match="none lies in a measured window") as refused:
        analyse(folder, graphs=None, miss_tokens=0)
    assert "VLLM_LOG_STATS_INTERVAL" in refused.value.remedy


def test_an_engine_that_was_asked_and_did_not_tell_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="wrote none"):
        analyse(report(tmp_path).path, graphs=None, miss_tokens=0)


def test_an_interval_of_its_own_is_respected(tmp_path: Path) -> None:
    of = recipe(env={"VLLM_LOG_STATS_INTERVAL": "2"})
    found = analyse(report(tmp_path, table(12.5), table(11.5), of=of).path, graphs=None, miss_tokens=0)
    assert (found.coverage.tables, found.coverage.covered_s) == (1, 2.0)


@pytest.mark.parametrize("name", [files.OBSERVATIONS, files.RECIPE, files.REPORT])
def test_a_report_that_was_edited_is_refused(measured: Signed, tmp_path: Path, name: str) -> None:
    copy = measured.copy(tmp_path / "copy")
    path = copy.path / name
    path.write_bytes(path.read_bytes().replace(b"streams", b"Streams").replace(b"run", b"rUn"))
    with pytest.raises(StreamproofError, match="changed after it was signed") as refused:
        analyse(copy.path, graphs=None, miss_tokens=0)
    assert "just verify" in refused.value.remedy


def test_a_report_of_a_newer_schema_is_refused(measured: Signed, tmp_path: Path) -> None:
    copy = measured.copy(tmp_path / "copy")
    path = copy.path / files.REPORT
    path.write_bytes(files.canonical_json(json.loads(path.read_bytes()) | {"schema_version": "2.0"}))
    (copy.path / files.ATTESTATION).unlink()
    with pytest.raises(UsageError, match=r"schema '2\.0'"):
        analyse(copy.path, graphs=None, miss_tokens=0)


@pytest.mark.parametrize(("made", "says"), [("0.1.0", r"streamproof 0\.1\.0 made it"), (None, "changed or damaged")])
def test_a_report_that_another_version_made_is_not_called_damaged(
    measured: Signed, tmp_path: Path, made: str | None, says: str
) -> None:
    copy = measured.copy(tmp_path / "copy")
    path = copy.path / files.REPORT
    stored = json.loads(path.read_bytes())
    del stored["points"][0]["between_runs"]
    stored["producer"]["version"] = made or version("streamproof")
    path.write_bytes(files.canonical_json(stored))
    (copy.path / files.ATTESTATION).unlink()
    with pytest.raises(StreamproofError, match=r"points\.0\.between_runs is not right") as refused:
        analyse(copy.path, graphs=None, miss_tokens=0)
    assert re.search(says, refused.value.remedy)


@pytest.mark.parametrize(
    ("content", "says"), [(b"{", "cannot be read"), (b"[]", "schema"), (b'{"schema_version":"1.0"}', "no report")]
)
def test_a_damaged_report_is_refused(measured: Signed, tmp_path: Path, content: bytes, says: str) -> None:
    copy = measured.copy(tmp_path / "copy")
    (copy.path / files.REPORT).write_bytes(content)
    (copy.path / files.ATTESTATION).unlink()
    with pytest.raises(StreamproofError, match=says):
        analyse(copy.path, graphs=None, miss_tokens=0)


@pytest.mark.parametrize("payload", [b"no base64 !", base64.b64encode(b"[]")])
def test_a_damaged_signature_is_refused(measured: Signed, tmp_path: Path, payload: bytes) -> None:
    copy = measured.copy(tmp_path / "copy")
    (copy.path / files.ATTESTATION).write_text(json.dumps({"dsseEnvelope": {"payload": payload.decode()}}))
    with pytest.raises(StreamproofError, match="cannot be read"):
        analyse(copy.path, graphs=None, miss_tokens=0)


def test_a_folder_without_a_report_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds no report\.json"):
        analyse(tmp_path, graphs=None, miss_tokens=0)
    result = CliRunner().invoke(app, ["graphs", str(tmp_path / "nowhere")])
    assert result.exit_code != 0


def page(*tables: GraphTable) -> str:
    evidence = make_evidence(healthy_records((0.5,) * 200), observations(*tables), recipe=recipe())
    return render_page(build_report(evidence), evidence)


def test_the_page_has_what_was_recorded_or_says_how_to_record_it() -> None:
    with_data, without = page(table(30.0)), page()
    assert 'id="graphs"' in with_data
    assert 'href="#graphs"' in with_data
    assert "Captured and never used: 10, 320, 4,095." in with_data
    assert "3 steps of 6,480" in with_data
    assert "Not recorded: no table of the engine's graphs lies in a measured window." in without
    assert "cudagraph_metrics=true" in without
    assert "Captured and never used" not in without
    assert page(table(5.0)) == without  # a table outside the windows tells nothing
