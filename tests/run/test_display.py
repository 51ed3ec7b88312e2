import io
import json
import math

import pytest
from rich.console import Console

from bench.display import Display, JsonDisplay, LiveDisplay, PlainDisplay, PointProgress, display_for
from bench.engine.base import StartProgress
from bench.observe.observations import PhaseStarted
from bench.records import Outcome
from tests.report.factories import make_failure, make_record


def progress() -> PointProgress:
    return PointProgress(number=1, of=3, label="2 streams", planned_s=60.0)


def in_window(point: PointProgress) -> None:
    point.enter(PhaseStarted(t=10.0, run=0, point=0, phase="steady"))


def test_p95_so_far_is_of_the_window_alone_and_counts_failures_as_late() -> None:
    point = progress()
    point.add(make_record(intended_s=1.0, done_s=100.0))
    in_window(point)
    for number in range(19):
        point.add(make_record(intended_s=10.0, done_s=10.0 + number / 100))
    before = point.p95_s
    point.add(make_record(intended_s=10.0, done_s=10.5))
    after = point.p95_s
    assert before is None
    assert after == pytest.approx(0.18)
    for _ in range(2):
        point.add(make_failure(Outcome.CUT, intended_s=10.0, done_s=10.1))
    assert point.p95_s == math.inf
    assert (point.finished, point.failed) == (23, 2)


def test_a_primed_request_is_no_latency_sample() -> None:
    point = progress()
    in_window(point)
    for _ in range(40):
        point.add(make_record(intended_s=11.0, done_s=12.0, primed=True))
    assert point.p95_s is None


def tell(display: Display) -> None:
    """A run as it is told."""
    display.note("a title")
    for elapsed, stage in ((0.5, "loading weights"), (1.0, "loading weights"), (2.0, "ready")):
        display.engine(StartProgress(stage, elapsed))
    point = progress()
    display.point(point)
    in_window(point)
    for number in range(20):
        point.add(make_record(intended_s=10.0, done_s=10.0 + number / 100))
    display.point_done(point)
    display.close()


def test_plain_lines() -> None:
    out = io.StringIO()
    tell(PlainDisplay(out))
    assert out.getvalue().splitlines() == [
        "a title",
        "  engine:   0.5 s  loading weights",
        "  engine:   2.0 s  ready",
        "[1/3] 2 streams: 60 s",
        "    20 requests, 0 failed, p95 0.180 s",
    ]


def test_json_lines() -> None:
    out = io.StringIO()
    tell(JsonDisplay(out))
    events = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [event["event"] for event in events] == ["note", "engine", "engine", "point", "point_done"]
    assert events[-1] == {
        "event": "point_done",
        "label": "2 streams",
        "requests": 20,
        "failed": 0,
        "p95_e2e_s": pytest.approx(0.18),
    }


def test_json_has_no_infinity() -> None:
    out = io.StringIO()
    point = progress()
    in_window(point)
    for _ in range(20):
        point.add(make_failure(Outcome.CUT, intended_s=10.0, done_s=10.1))
    JsonDisplay(out).point_done(point)
    assert json.loads(out.getvalue())["p95_e2e_s"] is None


def test_the_live_display_follows_and_leaves_only_results() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100, record=True)
    display = LiveDisplay(console)
    shown = []
    display.engine(StartProgress("loading weights", 3.0, "21/51"))
    console.print(display.render())
    shown.append(console.export_text(clear=True))
    point = progress()
    in_window(point)
    point.add(make_failure(Outcome.CUT, intended_s=10.0, done_s=10.1))
    display.point(point)
    console.print(display.render())
    shown.append(console.export_text(clear=True))
    display.point_done(point)
    display.close()
    assert "engine     3 s  loading weights  21/51" in shown[0]
    assert "[1/3] 2 streams" in shown[1]
    assert "steady" in shown[1]
    assert "60 s left" in shown[1]
    assert "1 requests, 1 failed, p95 -- so far" in shown[1]
    assert "1 requests  1 failed" in console.export_text().replace("    ", " ")


def test_which_display_fits() -> None:
    assert type(display_for(quiet=True, as_json=False)) is Display
    assert type(display_for(quiet=True, as_json=True)) is JsonDisplay
    assert type(display_for(quiet=False, as_json=False)) is PlainDisplay
