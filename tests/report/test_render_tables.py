"""What stands beneath the figures, and what the page says of GPUs and of the engine's events."""

from html import unescape
from typing import Any

import numpy as np
import pytest

from bench.explain.graphs.coverage import Window, coverage_of
from bench.observe.compiled import CompiledFile, CompiledFiles
from bench.observe.observations import EngineEvent, Gauges, GpuSample, GraphSteps, GraphTable, Observation, StageTime
from bench.report.build import build_report
from bench.report.evidence import Evidence
from bench.report.model import Estimate, Report
from bench.report.render import words
from bench.report.render.drawings import gauges_by_run
from bench.report.render.events import events_of
from bench.report.render.figure_ecdf import STEPS_DRAWN, Curve, ecdf_table, thinned
from bench.report.render.figure_gauges import gauge_table, gauges_of
from bench.report.render.figure_graphs import LABELS, graphs_figure
from bench.report.render.figure_startup import startup_table
from bench.report.render.figure_timeline import EVENTS_DRAWN, Bars, Span, timeline_table
from bench.report.render.gpus import hardware, power_limits, throttling
from bench.report.render.html import render_page
from bench.report.render.samples import Samples
from bench.report.render.tables import Cell, Table, cell
from bench.report.render.verdict import within_budget
from bench.stats.quantiles import Sample
from tests.report.factories import (
    healthy,
    healthy_observations,
    healthy_records,
    make_evidence,
    make_started,
    phases,
)


def texts(table: Table) -> list[list[str]]:
    return [[cell(each).text for each in row] for row in table.rows]


def gpu(t: float, *, run: int = 0, reasons: tuple[str, ...] = (), power: float | None = 300.0) -> GpuSample:
    return GpuSample(
        t=t,
        run=run,
        index=0,
        uuid="GPU-0",
        power_w=power,
        sm_clock_mhz=1980.0,
        memory_used_bytes=None,
        utilization=0.5,
        temperature_c=50.0,
        throttle_reasons=reasons,
    )


def graph_table(*steps: tuple[int, int, str, int], sizes: tuple[int, ...] = (5, 10, 20)) -> GraphTable:
    rows = tuple(
        GraphSteps.model_validate({"tokens": tokens, "padded": padded, "mode": mode, "count": count})
        for tokens, padded, mode, count in steps
    )
    return GraphTable(t=20.0, run=0, mode="FULL_AND_PIECEWISE", capture_sizes=sizes, steps=rows)


def test_a_distribution_as_figures_counts_failures_as_late_and_gives_none_from_too_few() -> None:
    sample = Sample(np.linspace(0.1, 1.0, 90), failures=10)
    table = ecdf_table([Curve("20 streams", sample)], what="E2E", budget_s=0.55)
    assert table.heads == ("point", "within 0.55 s", "10 %", "25 %", "50 %", "75 %", "90 %", "95 %", "99 %")
    # 45 of 100 are at most 0.55 s; rank 95 is among the failures; 100 are too few for p99. Ranks 40 and 61 enclose the
    # median of 100 with 95 %.
    assert texts(table) == [
        ["20 streams", "45.0 %", "191 ms", "343 ms", "596 ms", "848 ms", "1.00 s", "failed", "not enough"]
    ]
    assert table.rows[0][4] == Cell("596 ms", "494 to 707 ms")


def test_how_a_long_distribution_was_thinned_is_said() -> None:
    short = Curve("a", Sample(np.linspace(0, 1, STEPS_DRAWN), 0))
    assert thinned([short]) == ""
    assert "at most 300 steps" in thinned([short, Curve("b", Sample(np.linspace(0, 1, STEPS_DRAWN + 1), 0))])


def test_a_timeline_as_figures_has_a_row_a_phase() -> None:
    start = np.array([1.0, 2.0, 11.0, 12.0])
    bars = Bars(
        stream=np.arange(4),
        intended=start,
        sent=start + 0.01,
        first_token=np.array([1.5, 2.2, 11.3, np.nan]),
        done=start + 0.9,
        failed=np.array([False, False, False, True]),
    )
    event = EngineEvent(t=11.5, run=0, event="jit", line="x", line_number=1)
    spans = [Span("ramp", 1.0, 10.0), Span("steady", 10.0, 70.0), Span("drain", 70.0, 71.0)]
    table = timeline_table(bars, spans, [event], label="4 streams, run 1")
    assert texts(table) == [
        ["ramp", "2", "0", "10.0 ms", "340 ms", "550 ms", "0"],
        ["measured window", "2", "1", "10.0 ms", "290 ms", "600 ms", "1"],
        ["drain", "0", "0", *[words.ABSENT] * 3, "0"],
    ]
    assert table.rows[1][0] == Cell("measured window", "10 s to 1:10 min")
    assert table.rows[0][4] == Cell("340 ms", "at most 490 ms")


def test_gauges_as_figures_have_their_mean_and_range_over_each_window() -> None:
    seen: list[Observation] = [gpu(float(t), power=100.0 * t) for t in range(10)]
    seen.append(Gauges(t=3.0, run=0, running=4, waiting=None, kv_usage=0.5))
    gauges = [gauge for gauge in gauges_of(seen, 0, {0: 700.0}) if gauge.gpu]
    assert [gauge.limit for gauge in gauges] == [700.0, None, None, None]
    table = gauge_table(gauges, [("20 streams", 2.0, 5.0), ("40 streams", 50.0, 60.0)], what="GPU in run 1")
    assert table is not None
    assert table.heads == ("point", "GPU 0 power", "GPU 0 SM clock", "GPU 0 busy", "GPU 0 temperature")
    assert table.rows == (
        (
            "20 streams",
            Cell("300 W", "200 to 400"),
            Cell("1,980 MHz", "1,980 to 1,980"),
            Cell("50.0 %", "50.0 % to 50.0 %"),
            Cell("50.0 °C", "50.0 to 50.0"),
        ),
    )
    assert gauge_table(gauges, [("40 streams", 50.0, 60.0)], what="GPU in run 1") is None


def test_stages_as_figures() -> None:
    stages = (StageTime(name="weights", start_s=0, end_s=12), StageTime(name="graphs", start_s=12, end_s=20))
    assert texts(startup_table(make_started(stages=stages), "run 1")) == [
        ["weights", "0 s", "12.0 s"],
        ["graphs", "12.0 s", "8.00 s"],
    ]


def test_graphs_are_bars_by_how_they_were_replayed() -> None:
    table = graph_table((4, 5, "FULL", 30), (8, 10, "FULL", 10), (9, 10, "PIECEWISE", 5), (2000, 2000, "NONE", 2))
    coverage = coverage_of([table], [Window(run=0, start_s=0, end_s=30)], 10.0)
    assert coverage is not None
    figure = str(graphs_figure(coverage))
    assert figure.count("<rect") == 4
    for said in (
        "graph of 5 tokens: 30 steps whole",
        "graph of 10 tokens: 5 steps in pieces",
        "without a graph: 2 steps<",
        "95.7 % of 47 steps replayed one of 2 graphs; 2 had none.",
    ):
        assert said in figure


def test_many_graphs_have_few_labels_and_none_is_always_among_them() -> None:
    sizes = tuple(range(8, 8 * 84, 8))
    steps = [(size, size, "FULL", 1) for size in sizes]
    coverage = coverage_of(
        [graph_table(*steps, (9000, 9000, "NONE", 1), sizes=sizes)], [Window(run=0, start_s=0, end_s=30)], 10.0
    )
    assert coverage is not None
    figure = str(graphs_figure(coverage))
    assert figure.count('class="tick-x"') <= LABELS + 1
    assert ">none</text>" in figure


def test_power_limits_and_names_are_taken_from_whatever_the_environment_holds() -> None:
    gpus = [
        {"index": 0, "name": "NVIDIA H200", "power_limit_w": 700.0},
        {"index": 1, "name": "NVIDIA H200", "power_limit_w": None},
        {"index": "2", "power_limit_w": 10**400},
        {"index": 3, "power_limit_w": 10**400},
        "no card",
    ]
    assert power_limits({"gpus": gpus}) == {0: 700.0}
    assert hardware({"gpus": gpus}) == "2 x NVIDIA H200"
    zoo = [{"name": f"card {number}" + "x" * 100} for number in range(9)]
    assert hardware({"gpus": zoo}).endswith("x, and others")
    assert len(hardware({"gpus": zoo})) < 400
    nothings: list[dict[str, Any]] = [{}, {"gpus": None}, {"gpus": "x"}, {"gpus": []}]
    for nothing in nothings:
        assert (power_limits(nothing), hardware(nothing)) == ({}, "")


def test_why_a_card_was_held_back_is_said_for_the_windows_only() -> None:
    window = [(0, Span("steady", 10.0, 14.0))]
    calm = [gpu(float(t)) for t in range(20)]
    assert throttling(calm, window) == "No reason for lower clocks was seen in 4 samples of the measured windows."
    hot = [gpu(2.0, reasons=("heat",)), *(gpu(10.0 + t, reasons=("power",) if t < 3 else ()) for t in range(4))]
    assert throttling(hot, window) == (
        "Reasons for lower clocks, as a share of 4 samples of the windows: power (75.0 %)."
    )
    assert throttling([gpu(10.0, run=1)], window) == ""


def with_events(*events: Observation) -> tuple[Report, Evidence]:
    records = healthy_records([0.5] * 100)
    evidence = make_evidence(records, [make_started(), *healthy_observations(records), *events])
    return build_report(evidence), evidence


def test_events_are_listed_with_their_place_and_those_elsewhere_are_counted() -> None:
    report, evidence = with_events(
        EngineEvent(t=5.0, run=0, event="jit", line="Compiling <b>", line_number=1234),
        EngineEvent(t=500.0, run=0, event="warning", line="later", line_number=None),
    )
    found = events_of(report, Samples.of(evidence))
    ((row,), left_out, elsewhere) = found.rows, found.left_out, found.elsewhere
    assert (row.run, row.when, row.where, row.name, row.number) == (
        1,
        "5 s",
        "20 streams, ramp",
        "kernel compiled",
        "1,234",
    )
    assert (left_out, elsewhere) == (0, 1)
    page = render_page(report, evidence)
    assert "Compiling &lt;b&gt;" in page
    assert "1 event before, between or after the points" in page


def test_a_rare_event_is_never_lost_among_many() -> None:
    many = [
        EngineEvent(t=20 + number / 100, run=0, event="warning", line="w", line_number=None) for number in range(900)
    ]
    report, evidence = with_events(*many, EngineEvent(t=21.0, run=0, event="preemption", line="p", line_number=None))
    found = events_of(report, Samples.of(evidence))
    assert [row.name for row in found.rows].count("request preempted") == 1
    assert found.left_out == 900 - EVENTS_DRAWN
    page = render_page(report, evidence)
    assert "Of 901 events of the engine 101 are marked, of each kind evenly." in page
    assert "800 further events of the same kinds left out, evenly." in page


def test_compiled_code_that_no_log_tells_of_is_listed_and_marked_like_an_event() -> None:
    kernel = CompiledFile(t=12.0, cache="deep_gemm", path="cache/kernel.<b>/kernel.cu")
    late = CompiledFile(t=500.0, cache="triton", path="ABC/moe.cubin")
    seen = CompiledFiles(t=600.0, run=0, point=0, since=0.0, count=2, files=(kernel, late), why_not=None, replica=1)
    report, evidence = with_events(EngineEvent(t=5.0, run=0, event="jit", line="x", line_number=1), seen)
    found = events_of(report, Samples.of(evidence))
    told, written = found.rows
    assert (told.name, told.line, told.number, told.replica) == ("kernel compiled", "x", "1", "")
    assert (written.when, written.where) == ("12 s", "20 streams, measured window")
    assert (written.name, written.line) == ("compiled code written", f"deep_gemm: {kernel.path}")
    assert (written.number, written.replica) == ("", "replica 1")
    assert (found.left_out, found.elsewhere) == (0, 1)
    page = render_page(report, evidence)
    assert "What the engine's log told and its compile caches showed at the operating points." in page
    assert "Events are those of the engine's log and of its caches." in unescape(page)
    assert page.count("deep_gemm: cache/kernel.&lt;b&gt;/kernel.cu") == 2  # in the table, and at its mark


def test_a_page_without_compiled_code_speaks_of_the_log_alone() -> None:
    report, evidence = with_events(EngineEvent(t=5.0, run=0, event="jit", line="x", line_number=1))
    page = render_page(report, evidence)
    assert "What the engine's log told at the operating points." in page
    assert "Events are those of the engine's log." in unescape(page)


def test_a_window_that_was_cut_off_is_shaded_to_its_end() -> None:
    records = healthy_records([0.5] * 100)
    cut = [seen for seen in phases(0, 0, 0.0) if getattr(seen, "phase", "") not in {"drain", "done"}]
    evidence = make_evidence(records, [make_started(), *cut])
    (window,) = [span for span in Samples.of(evidence).phases(0, 0) if span.name == "steady"]
    assert (window.start_s, window.end_s) == (10.0, max(record.done_s for record in records))


def test_gpus_have_a_section_of_their_own_and_graphs_say_what_is_missing() -> None:
    evidence = healthy()
    evidence = make_evidence(
        healthy_records([0.5] * 200),
        [*evidence.observations, *(gpu(float(t)) for t in range(30))],
        environment={"gpus": [{"index": 0, "name": "NVIDIA H200", "power_limit_w": 700}]},
        recipe=evidence.recipe,
    )
    report = build_report(evidence)
    (run,) = gauges_by_run(report, evidence, Samples.of(evidence), gpu=True)
    assert "GPU 0 power" in run.figures[0]
    assert ">limit</text>" in run.figures[0]
    page = render_page(report, evidence)
    assert 'id="gpus"' in page
    assert "on <b>NVIDIA H200</b>" in page
    assert "--set engine.flags.cudagraph_metrics=true" in page
    assert 'id="gpus"' not in render_page(build_report(healthy()), healthy())


@pytest.mark.parametrize(
    ("low", "high", "says"),
    [
        (0.8, 1.0, "within 1 s"),
        (0.8, 1.2, "about 1 s"),
        (1.01, 1.2, "over 1 s"),
        (0.9, None, "about 1 s"),
        (1.5, None, "over 1 s"),
    ],
)
def test_a_tile_says_how_the_whole_interval_lies_to_the_budget(low: float, high: float | None, says: str) -> None:
    report = build_report(healthy())
    estimate = Estimate(value=low, low=low, high=high, confidence=0.95, n=200, among_failures=False)
    badge = within_budget(report, estimate, 1.0)
    assert badge is not None
    assert badge.says == says


def test_a_tile_says_nothing_of_what_proves_nothing() -> None:
    report = build_report(healthy())
    few = Estimate(value=None, low=None, high=None, confidence=0.95, n=3, among_failures=False)
    fine = Estimate(value=0.5, low=0.4, high=0.6, confidence=0.95, n=200, among_failures=False)
    lost = Estimate(value=None, low=None, high=None, confidence=0.95, n=200, among_failures=True)
    assert within_budget(report, few, 1.0) is None
    assert within_budget(report.model_copy(update={"valid": False}), fine, 1.0) is None
    assert within_budget(report.model_copy(update={"partial": True}), fine, 1.0) is None
    badge = within_budget(report, lost, 1.0)
    assert badge is not None
    assert badge.says == "over 1 s"
