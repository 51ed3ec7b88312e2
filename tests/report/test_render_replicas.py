"""Several replicas on the page and in short: how many, each one's start, and which one an event was of."""

from __future__ import annotations

from bench.observe.observations import EngineEvent, GraphTable, ReplicaStarted, StageTime
from bench.report.build import build_report
from bench.report.render.html import render_page
from bench.report.render.markdown import render_markdown
from tests.report.factories import (
    STEADY,
    healthy,
    healthy_observations,
    healthy_records,
    make_evidence,
    make_recipe,
    make_started,
)

STAGES = (StageTime(name="weights", start_s=1.0, end_s=3.0),)


def replica(number: int) -> ReplicaStarted:
    return ReplicaStarted(
        ready_s=10.0 + number,
        stages=STAGES,
        argv=("serve", str(number)),
        cold=False,
        gpus=(f"GPU-{number}",),
        cores=None if number else (0, 2),
    )


def test_the_page_describes_each_of_them() -> None:
    records = healthy_records([0.5] * 200)
    started = make_started(stages=(), replicas=(replica(0), replica(1)), argv=("serve", "0"))
    event = EngineEvent(t=STEADY + 1, run=0, event="jit", line="compiled", line_number=9, replica=1)
    recipe = make_recipe(hardware={"count": 2}, engine={"replicas": 2})
    evidence = make_evidence(records, [started, event, *healthy_observations(records)], recipe=recipe)
    report = build_report(evidence)
    page = render_page(report, evidence)
    assert "engine <b>process, 2 replicas</b>" in page
    assert "<dt>replica 0</dt><dd>ready after 10.0 s, on GPU-0, on 2 cores (0, 2)</dd>" in page
    assert "<dt>replica 1</dt><dd>ready after 11.0 s, on GPU-1</dd>" in page
    assert "as read from the log of replica 1" in page
    assert "Start of run 1, replica 1 as a table" in page
    assert "Command line of replica 0" in page
    assert "run 1, replica 1</td>" in page
    (compiled,) = (check for check in report.checks if check.rule.startswith("nothing was compiled"))
    assert "into the window, at replica 1, line 9" in compiled.measured
    assert "The engine was 2 replicas side by side" in render_markdown(report, evidence.observations)


def test_one_engine_is_described_as_before() -> None:
    evidence = healthy()
    page, text = render_page(build_report(evidence), evidence), render_markdown(build_report(evidence))
    assert "replica" not in page + text
    event = EngineEvent(t=1.0, run=0, event="jit", line="x", line_number=1)
    table = GraphTable(t=1.0, run=0, mode="FULL", capture_sizes=(), steps=())
    assert all("replica" not in each.model_dump_json() for each in (make_started(), event, table))
