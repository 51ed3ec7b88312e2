"""Rules about the engine: each is kept, broken by what it is about, and unknown where nobody can tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bench.observe.compiled import FILES_LISTED, CompiledFile, CompiledFiles
from bench.observe.observations import EngineEvent
from bench.records import Outcome
from bench.report import rules_engine
from bench.report.measurement import Measurement
from bench.report.prefix import Hits
from tests.report.factories import (
    DONE,
    DRAIN,
    POINT_S,
    STEADY,
    healthy,
    healthy_observations,
    healthy_records,
    make_evidence,
    make_failure,
    make_record,
    make_started,
    phases,
)

if TYPE_CHECKING:
    from bench.observe.observations import Observation
    from bench.records import RequestRecord
    from bench.report.model import Check


def measured(
    *extra: Observation,
    records: list[RequestRecord] | None = None,
    started: dict[str, Any] | None = None,
    **counted: Any,
) -> Measurement:
    """One point of one run; `counted` bends the engine's counters."""
    records = healthy_records([0.5] * 200) if records is None else records
    engine = make_started(**(started or {}))
    return Measurement.of(make_evidence(records, [engine, *healthy_observations(records, **counted), *extra]))


def only(checks: list[Check]) -> Check:
    (check,) = checks
    assert (check.advice == "") == (check.verdict == "kept")
    return check


# client totals equal the engine's


def test_equal_totals_are_kept() -> None:
    check = only(rules_engine.totals(measured()))
    assert check.verdict == "kept"
    assert check.measured == "the engine counted 201 requests, 20,100 prompt tokens, 2,010 reply tokens"
    assert check.expected == "the client's own: 201 requests, 20,100 prompt tokens, 2,010 reply tokens"


@pytest.mark.parametrize(
    "counted",
    [
        {"requests_finished": 202.0},
        {"requests_finished": 200.0},
        {"prompt_tokens": 20_101.0},
        {"generation_tokens": 2_009.0},
        {"generation_tokens": -5.0},
    ],
)
def test_a_single_token_or_request_too_many_or_too_few_breaks_it(counted: dict[str, Any]) -> None:
    assert only(rules_engine.totals(measured(**counted))).verdict == "broken"


@pytest.mark.parametrize("counter", ["requests_finished", "prompt_tokens", "generation_tokens"])
def test_totals_are_unknown_without_a_counter(counter: str) -> None:
    assert only(rules_engine.totals(measured(**{counter: None}))).verdict == "unknown"


@pytest.mark.parametrize(
    ("counted", "verdict"),
    [
        ({}, "unknown"),  # the engine counted nothing of it, which may be so
        ({"requests_finished": 202.0, "prompt_tokens": 20_200.0, "generation_tokens": 2_020.0}, "unknown"),
        ({"requests_finished": 203.0}, "broken"),
        ({"prompt_tokens": 20_201.0}, "broken"),
        ({"generation_tokens": 2_021.0}, "broken"),
        ({"generation_tokens": 2_009.0}, "broken"),
    ],
)
def test_a_request_without_usage_leaves_bounds_and_no_more(counted: dict[str, Any], verdict: str) -> None:
    whole = healthy_records([0.5] * 200)
    found = measured(records=[*whole, make_failure(Outcome.TIMEOUT)], **({"requests_finished": 201.0} | counted))
    assert only(rules_engine.totals(found)).verdict == verdict


def test_a_request_that_never_reached_the_engine_leaves_totals_exact() -> None:
    whole = healthy_records([0.5] * 200)
    refused = make_failure(Outcome.CONNECT, sent_s=None, status=None)
    assert only(rules_engine.totals(measured(records=[*whole, refused], requests_finished=201.0))).verdict == "kept"


def test_one_bad_run_breaks_a_point_and_is_named() -> None:
    evidence = healthy([0.5] * 100, runs=2, points=1)
    bent = [
        seen.model_copy(update={"values": seen.values.model_copy(update={"prompt_tokens": 5.0})})
        if seen.kind == "counters" and seen.when == "after" and seen.run == 1
        else seen
        for seen in evidence.observations
    ]
    found = Measurement.of(
        make_evidence(healthy_records([0.5] * 100) + healthy_records([0.5] * 100, run=1, at=POINT_S), bent)
    )
    check = only(rules_engine.totals(found))
    assert check.verdict == "broken"
    assert check.measured == "run 1: the engine counted 101 requests, 5 prompt tokens, 1,010 reply tokens"


def test_runs_that_agree_are_told_once() -> None:
    check = only(rules_engine.totals(Measurement.of(healthy([0.5] * 100, runs=3, points=1))))
    assert check.verdict == "kept"
    assert "run" not in check.measured


# prefix hits are as predicted


def hits(measured_hits: float | None, predicted: Hits | None) -> Check:
    found = measured(prefix_hits=measured_hits)
    return only(rules_engine.prefix_hits(found, {} if predicted is None else {(0, 0): predicted}))


@pytest.mark.parametrize(
    ("counted", "predicted", "verdict"),
    [
        (1000.0, Hits(1000, 1000, 1000), "kept"),
        (1020.0, Hits(1000, 1000, 1000), "kept"),
        (980.0, Hits(1000, 1000, 1000), "kept"),
        (1021.0, Hits(1000, 1000, 1000), "broken"),
        (979.0, Hits(1000, 1000, 1000), "broken"),
        (0.0, Hits(0, 0, 0), "kept"),
        (16.0, Hits(0, 0, 0), "broken"),
        (1020.0, Hits(1000, 500, 2000), "kept"),
        (1500.0, Hits(1000, 500, 2000), "unknown"),
        (490.0, Hits(1000, 500, 2000), "unknown"),
        (2040.0, Hits(1000, 500, 2000), "unknown"),
        (489.0, Hits(1000, 500, 2000), "broken"),
        (2041.0, Hits(1000, 500, 2000), "broken"),
        (None, Hits(1000, 1000, 1000), "unknown"),
        (1000.0, None, "unknown"),
    ],
)
def test_hits_within_two_percent_of_the_prediction(counted: float | None, predicted: Hits | None, verdict: str) -> None:
    assert hits(counted, predicted).verdict == verdict


def test_a_range_is_told_as_one() -> None:
    assert hits(1000.0, Hits(1000, 1000, 1000)).expected == "1,000 hit tokens predicted"
    assert "(500 to 2,000" in hits(1000.0, Hits(1000, 500, 2000)).expected


# nothing was compiled or captured in the window


def event(kind: str, t: float, *, run: int = 0, line_number: int | None = 7) -> EngineEvent:
    return EngineEvent.model_validate(
        {"t": t, "run": run, "event": kind, "line": "compiled something", "line_number": line_number}
    )


while_window_requests_are_open = pytest.mark.parametrize(
    ("t", "verdict"),
    [
        (STEADY - 0.1, "kept"),
        (STEADY, "broken"),
        (DRAIN - 0.1, "broken"),
        (DRAIN + 0.19, "broken"),  # the last request of the window is still open
        (DRAIN + 0.3, "kept"),
    ],
)


@pytest.mark.parametrize("kind", ["jit", "graph_capture"])
@while_window_requests_are_open
def test_compiling_while_window_requests_are_open_breaks_it(kind: str, t: float, verdict: str) -> None:
    records = healthy_records([0.7] * 200)
    assert max(record.done_s for record in records) == pytest.approx(DRAIN + 0.2)
    assert only(rules_engine.nothing_compiled(measured(event(kind, t), records=records))).verdict == verdict


def test_compiling_after_the_last_request_of_the_window_is_another_matter() -> None:
    open_in_drain = make_record(intended_s=DRAIN + 1, took_s=9.0, segments=((900, 100),))
    records = [*healthy_records([0.5] * 200), open_in_drain]
    assert only(rules_engine.nothing_compiled(measured(event("jit", DRAIN + 5), records=records))).verdict == "kept"


def test_the_line_is_named() -> None:
    check = only(rules_engine.nothing_compiled(measured(event("jit", 12.5), event("jit", 20.0))))
    assert check.measured == "2 in the engine's log, the first 2.5 s into the window, line 7: compiled something"
    assert "line" not in only(rules_engine.nothing_compiled(measured(event("jit", 12.5, line_number=None)))).measured


@pytest.mark.parametrize("kind", ["warning", "error", "preemption", "died"])
def test_other_events_are_not_about_compiling(kind: str) -> None:
    assert only(rules_engine.nothing_compiled(measured(event(kind, 50.0)))).verdict == "kept"


def test_another_run_compiles_for_itself() -> None:
    assert only(rules_engine.nothing_compiled(measured(event("jit", 50.0, run=1)))).verdict == "kept"


def test_nobody_knows_what_somebody_elses_engine_compiles() -> None:
    found = measured(event("jit", 50.0), started={"kind_of_engine": "external"})
    assert only(rules_engine.nothing_compiled(found)).verdict == "unknown"


def test_compiling_is_unknown_without_an_engine_or_a_window() -> None:
    unstarted = Measurement.of(make_evidence([], phases(0, 0)))
    assert only(rules_engine.nothing_compiled(unstarted)).verdict == "unknown"
    unsteady = Measurement.of(make_evidence([], [make_started(), *phases(0, 0)[:2]]))
    assert only(rules_engine.nothing_compiled(unsteady)).verdict == "unknown"


def compiled(
    *files: tuple[float, str],
    run: int = 0,
    count: int | None = -1,
    why_not: str | None = None,
    replica: int | None = None,
) -> CompiledFiles:
    """What DeepGEMM left, (when, path), in point 0."""
    return CompiledFiles(
        t=DONE + 0.5,
        run=run,
        point=0,
        since=0.0,
        count=len(files) if count == -1 else count,
        files=tuple(CompiledFile(t=t, cache="deep_gemm", path=path) for t, path in files),
        why_not=why_not,
        replica=replica,
    )


KERNEL = "cache/kernel.fp8_gemm.0123/kernel.cu"


@while_window_requests_are_open
def test_a_kernel_that_no_log_tells_of_breaks_it(t: float, verdict: str) -> None:
    records = healthy_records([0.7] * 200)
    assert only(rules_engine.nothing_compiled(measured(compiled((t, KERNEL)), records=records))).verdict == verdict


def test_the_cache_the_first_file_and_how_many_are_named() -> None:
    files = [(STEADY - 1, "early"), (STEADY + 2.5, KERNEL), (STEADY + 3, "b"), (STEADY + 4, "c")]
    check = only(rules_engine.nothing_compiled(measured(compiled(*files))))
    assert check.verdict == "broken"
    assert check.measured == (
        f"3 files of compiled code in the engine's caches, the first 2.5 s into the window: deep_gemm, {KERNEL}"
    )
    of_two = measured(compiled((STEADY + 9, "x"), replica=0), compiled((STEADY + 5, KERNEL), replica=1))
    assert only(rules_engine.nothing_compiled(of_two)).measured == (
        "2 files of compiled code in the engine's caches, the first 5.0 s into the window, at replica 1: "
        f"deep_gemm, {KERNEL}"
    )


def test_what_the_log_and_the_caches_show_is_told_together() -> None:
    check = only(rules_engine.nothing_compiled(measured(event("jit", 12.5), compiled((13.0, KERNEL)))))
    assert check.verdict == "broken"
    log, caches = check.measured.split("; ")
    assert log == "1 in the engine's log, the first 2.5 s into the window, line 7: compiled something"
    assert caches.startswith("1 file of compiled code in the engine's caches, the first 3.0 s into the window: ")
    assert only(rules_engine.nothing_compiled(measured(event("jit", 12.5), compiled()))).measured == log


def test_more_files_than_are_listed_are_at_least_as_many() -> None:
    many = compiled(*[(STEADY + 1 + number / 1e4, KERNEL) for number in range(FILES_LISTED)], count=5_000)
    check = only(rules_engine.nothing_compiled(measured(many)))
    assert check.measured.startswith("1,000 or more files of compiled code")


def test_a_window_in_which_neither_log_nor_caches_show_anything() -> None:
    for seen in (compiled(), compiled((STEADY - 1, KERNEL)), compiled((DONE, KERNEL))):
        check = only(rules_engine.nothing_compiled(measured(seen)))
        assert (check.verdict, check.measured) == ("kept", "none in the engine's log and none in its caches")


def test_without_a_look_into_the_caches_the_log_decides_as_it_always_did() -> None:
    check = only(rules_engine.nothing_compiled(measured()))
    assert (check.verdict, check.measured) == ("kept", "none in the engine's log")


def test_caches_that_nobody_could_look_into_leave_it_unknown() -> None:
    shut = compiled(count=None, why_not="Docker does not answer")
    check = only(rules_engine.nothing_compiled(measured(shut)))
    assert check.verdict == "unknown"
    assert check.measured == "none in the engine's log; its caches could not be looked into: Docker does not answer"
    assert only(rules_engine.nothing_compiled(measured(shut, event("jit", 12.5)))).verdict == "broken"
    one_of_two = measured(shut.model_copy(update={"replica": 0}), compiled((12.5, KERNEL), replica=1))
    assert only(rules_engine.nothing_compiled(one_of_two)).verdict == "broken"


def test_files_of_another_run_or_of_somebody_elses_engine_do_not_count() -> None:
    assert only(rules_engine.nothing_compiled(measured(compiled((50.0, KERNEL), run=1)))).verdict == "kept"
    external = measured(compiled((50.0, KERNEL)), started={"kind_of_engine": "external"})
    assert only(rules_engine.nothing_compiled(external)).measured == "the engine's log is not ours to read"


# no request was preempted


@pytest.mark.parametrize(("count", "verdict"), [(0.0, "kept"), (1.0, "broken"), (None, "unknown")])
def test_preemptions_by_the_counter(count: float | None, verdict: str) -> None:
    assert only(rules_engine.nobody_preempted(measured(preemptions=count))).verdict == verdict


@pytest.mark.parametrize("count", [0.0, None])
def test_preemptions_by_the_log(count: float | None) -> None:
    check = only(rules_engine.nobody_preempted(measured(event("preemption", 50.0), preemptions=count)))
    assert check.verdict == "broken"
    assert check.measured == "preemptions: 1"


@pytest.mark.parametrize("t", [-1.0, DONE + 1])
def test_preemptions_outside_the_point_are_another_matter(t: float) -> None:
    assert only(rules_engine.nobody_preempted(measured(event("preemption", t)))).verdict == "kept"


def test_preemptions_in_a_point_that_has_not_ended() -> None:
    found = Measurement.of(make_evidence([], [make_started(), *phases(0, 0)[:3], event("preemption", 500.0)]))
    assert only(rules_engine.nobody_preempted(found)).verdict == "broken"
