import re
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from markupsafe import Markup
from numpy.typing import NDArray

from bench.observe.observations import EngineEvent, Gauges, GpuSample, HostSample, Observation, StageTime
from bench.report.build import build_report
from bench.report.render import figure_timeline
from bench.report.render.figure_ecdf import STEPS_DRAWN, Curve, ecdf_figure
from bench.report.render.figure_gauges import gauge_figure, gauges_of
from bench.report.render.figure_latency import Limit, latency_figure, undrawn
from bench.report.render.figure_startup import startup_figure
from bench.report.render.figure_timeline import Bars, Span, timeline_figure
from bench.stats.quantiles import Sample
from tests.report.factories import healthy, make_started


def svg_of(markup: Markup) -> ET.Element:
    return ET.fromstring(markup)  # noqa: S314  our own output


def classed(svg: ET.Element, kind: str) -> list[ET.Element]:
    return [element for element in svg.iter() if kind in (element.get("class") or "").split()]


def texts(svg: ET.Element) -> list[str]:
    return [element.text or "" for element in svg.iter("text")]


def path_points(path: str) -> int:
    return len(re.findall("[MLH]", path))


def make_bars(streams: int, each: int, *, failed: int = 0) -> Bars:
    count = streams * each
    start: NDArray[np.float64] = np.linspace(0, (count - 1) / 2, count)
    return Bars(
        stream=np.arange(count) % streams,
        intended=start,
        sent=start + 0.01,
        first_token=start + 0.2,
        done=start + 0.4,
        failed=np.arange(count) < failed,
    )


def test_latency_has_a_series_a_percentile_with_intervals_the_budget_and_the_limits() -> None:
    report = build_report(healthy([0.3 + 0.001 * number for number in range(400)]))
    svg = svg_of(latency_figure(report.points, [Limit(40, 0.84, "sixty")], 1.0, unit="open user streams"))
    for name in ("p50", "p90", "p95", "p99"):
        assert [element.tag for element in classed(svg, name)].count("circle") == 2
        assert [element.tag for element in classed(svg, name)].count("line") == 2
        assert [element.tag for element in classed(svg, name)].count("path") == 1
    (p95, _) = [element for element in classed(svg, "p95") if element.tag == "circle"]
    # p95 of 0.300 to 0.699 s is the 380th: 0.679 s, on an axis to 1 s, 280 pixels high.
    assert float(p95.get("cy") or 0) == pytest.approx(280 * (1 - 0.679), abs=0.06)
    assert p95[0].text is not None
    assert p95[0].text.startswith("p95 at 20: 679 ms (")
    assert len(classed(svg, "budget")) == 1
    assert [element[0].text for element in classed(svg, "limit")] == ["sixty: at most 840 ms"]
    assert {"20", "40", "open user streams", "p50", "p95", "budget"} <= set(texts(svg))


def test_what_cannot_be_drawn_is_named() -> None:
    report = build_report(healthy([0.5] * 100, points=1))
    assert undrawn(report.points) == ["p99 at 20 streams (not enough)"]
    svg = svg_of(latency_figure(report.points, [], 1.0, unit="streams"))
    assert not classed(svg, "p99")


def test_labels_of_loads_that_lie_close_are_left_out_but_never_the_largest() -> None:
    point = build_report(healthy([0.5] * 100, points=1)).points[0]
    points = [point.model_copy(update={"streams": streams}) for streams in (1, 2, 4, 100, 1000)]
    labels = texts(svg_of(latency_figure(points, [], 1.0, unit="streams")))
    assert "1,000" in labels
    assert "100" in labels
    assert "2" not in labels


def test_the_same_load_may_stand_in_a_ladder_twice() -> None:
    point = build_report(healthy([0.5] * 100, points=1)).points[0]
    svg = svg_of(latency_figure([point, point], [], 1.0, unit="streams"))
    assert len([element for element in classed(svg, "p95") if element.tag == "circle"]) == 2


def test_an_ecdf_rises_to_the_share_that_succeeded() -> None:
    sample = Sample(np.array([0.1, 0.2, 0.3]), failures=1)
    svg = svg_of(ecdf_figure([Curve("20 streams", sample)], what="E2E", budget_s=0.2))
    (path,) = [element.get("d") or "" for element in classed(svg, "curve")]
    # Axis to 0.3 s; steps at thirds; the top is 75 % of 240 pixels: y = 60.
    assert path.startswith("M333.3 240L333.3 180H666.7L666.7 120H1000L1000 60")
    assert len(classed(svg, "budget")) == 1
    assert not classed(svg_of(ecdf_figure([Curve("x", sample)], what="E2E", budget_s=9.0)), "budget")


def test_a_long_ecdf_is_thinned_and_keeps_its_ends() -> None:
    values = np.linspace(0.1, 0.9, 100_000)
    svg = svg_of(ecdf_figure([Curve("x", Sample(values, 0))], what="E2E"))
    (path,) = [element.get("d") or "" for element in classed(svg, "curve")]
    assert path_points(path) <= 2 * STEPS_DRAWN + 1
    assert path.startswith("M100 240")
    assert path.endswith("L900 0")


def test_a_timeline_has_a_row_a_stream_and_three_parts_a_request() -> None:
    bars = make_bars(4, 5, failed=2)
    phases = [Span("ramp", 0.0, 2.0), Span("steady", 2.0, 8.0)]
    event = EngineEvent(t=3.0, run=0, event="jit", line="<b>compiled</b>", line_number=1)
    outside = EngineEvent(t=300.0, run=0, event="jit", line="later", line_number=2)
    drawn = timeline_figure(bars, phases, [event, outside], label="4 streams, run 1", share=1)
    svg = svg_of(drawn.figure)
    assert (drawn.drawn, drawn.requests, drawn.rows, drawn.streams) == (20, 20, 4, 4)
    counts = {
        kind: classed(svg, kind)[0].get("d", "").count("M") for kind in ("waiting", "prefill", "decode", "failed")
    }
    assert counts == {"waiting": 18, "prefill": 18, "decode": 18, "failed": 2}
    assert [element.get("class") for element in classed(svg, "phase")] == ["phase ramp", "phase steady"]
    assert [element[0].text for element in classed(svg, "event")] == ["jit: <b>compiled</b>"]
    assert "<b>" not in drawn.figure


def test_a_part_that_a_request_does_not_have_is_not_drawn() -> None:
    bars = make_bars(1, 2)
    nan = np.full(2, np.nan)
    bars = Bars(bars.stream, bars.intended, nan, nan, bars.done, np.array([True, True]))
    svg = svg_of(timeline_figure(bars, [], [], label="x", share=1).figure)
    assert [len(classed(svg, kind)) for kind in ("waiting", "prefill", "decode", "failed")] == [0, 0, 0, 1]


def test_too_many_streams_are_thinned_whole() -> None:
    drawn = timeline_figure(make_bars(200, 100), [], [], label="x", share=1)
    assert drawn.rows == 50
    assert drawn.drawn == 50 * 100 == figure_timeline.FIGURE_BARS
    assert (drawn.requests, drawn.streams) == (20_000, 200)
    shared = timeline_figure(make_bars(200, 100), [], [], label="x", share=12)
    assert shared.drawn == 2000 == figure_timeline.BARS_DRAWN // 12


def test_a_page_has_a_limit_however_many_requests_there_were() -> None:
    """Twelve timelines of more requests than are drawn: most of what a page can weigh."""
    panels = [timeline_figure(make_bars(60, 100), [], [], label="x", share=12) for _ in range(12)]
    assert sum(panel.drawn for panel in panels) > figure_timeline.BARS_DRAWN * 0.9
    assert sum(len(panel.figure) for panel in panels) < 2_000_000


def test_a_single_stream_with_too_many_requests_keeps_failures_apart() -> None:
    drawn = timeline_figure(make_bars(1, 20_000, failed=30), [], [], label="x", share=1)
    svg = svg_of(drawn.figure)
    assert classed(svg, "failed")[0].get("d", "").count("M") == 30
    assert drawn.drawn == figure_timeline.FIGURE_BARS + 30


def test_many_events_are_thinned() -> None:
    events = [EngineEvent(t=number / 100, run=0, event="warning", line="w", line_number=None) for number in range(900)]
    svg = svg_of(timeline_figure(make_bars(2, 10), [], events, label="x", share=1).figure)
    assert len(classed(svg, "event")) == figure_timeline.EVENTS_DRAWN


def test_start_up_stages_with_their_lengths() -> None:
    stages = (StageTime(name="weights", start_s=0, end_s=12), StageTime(name="<graphs>", start_s=12, end_s=20))
    markup = startup_figure(make_started(stages=stages, ready_s=21.0))
    assert {"weights, 12.0 s", "<graphs>, 8.00 s"} <= set(texts(svg_of(markup)))
    assert [element.get("d") for element in classed(svg_of(markup), "stage")] == ["M0 24.5H400", "M400 58.5H666.7"]


def test_gauges_are_those_of_their_run_and_unknown_values_are_left_out() -> None:
    gpu = GpuSample(
        t=1.0,
        run=0,
        index=1,
        uuid="GPU-1",
        power_w=300.0,
        sm_clock_mhz=None,
        memory_used_bytes=None,
        utilization=0.5,
        temperature_c=60.0,
        throttle_reasons=(),
    )
    seen: list[Observation] = [
        Gauges(t=2.0, run=0, running=4, waiting=None, kv_usage=0.5),
        Gauges(t=1.0, run=0, running=2, waiting=None, kv_usage=None),
        Gauges(t=1.0, run=1, running=99, waiting=None, kv_usage=None),
        gpu,
        HostSample(t=1.0, run=0, cpu_cores_used=1.5, memory_used_bytes=1),
        make_started(),
    ]
    found = {gauge.name: gauge.places for gauge in gauges_of(seen, 0)}
    assert found == {
        "requests running": ((1.0, 2), (2.0, 4)),
        "KV cache in use": ((2.0, 0.5),),
        "GPU 1 power": ((1.0, 300.0),),
        "GPU 1 busy": ((1.0, 0.5),),
        "GPU 1 temperature": ((1.0, 60.0),),
        "host CPU cores busy": ((1.0, 1.5),),
    }
    labels = {
        text
        for gauge in gauges_of(seen, 0)
        for text in texts(svg_of(gauge_figure(gauge, [Span("steady", 0, 1)], 0, 9)))
    }
    assert {"GPU 1 power", "300 W", "100 %", "60 °C"} <= labels
