"""The whole report: pure, deterministic, and honest about how the run ended."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.errors import Exit
from bench.observe.observations import Finished, Interrupted
from bench.report.build import build_report
from bench.report.disclosure import DEFINITIONS
from bench.report.model import Report
from bench.workload.prefix_cache_bounds import HitPrediction
from tests.report.factories import (
    BLOCK,
    healthy,
    healthy_observations,
    healthy_records,
    make_claim,
    make_evidence,
    make_recipe,
    make_started,
    phases,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.workload.prefix_cache_bounds import ServedPrompt
    from bench.workload.prefix_cache_rules import CacheRules


def test_a_healthy_run_keeps_every_rule() -> None:
    report = build_report(healthy(runs=2, recipe=make_recipe(load={"runs": 2}, claims=[make_claim()])))
    assert {check.verdict for check in report.checks} == {"kept"}
    assert len({(check.rule, check.point) for check in report.checks}) == len(report.checks)
    assert report.valid
    assert report.exit_code == Exit.OK
    assert not report.partial
    assert report.partial_reason is None
    assert report.engine_kind == "process"
    assert report.title == "A test"
    assert [point.complete for point in report.points] == [True, True]
    assert [claim.verdict for claim in report.claims] == ["reproduced"]
    assert report.definitions == DEFINITIONS


def test_the_report_is_the_same_every_time_and_in_every_order_of_records() -> None:
    evidence = healthy([0.3 + i % 17 / 30 for i in range(150)])
    text = build_report(evidence).model_dump_json()
    assert build_report(evidence).model_dump_json() == text
    assert Report.model_validate_json(text).model_dump_json() == text


@settings(max_examples=10)
@given(order=st.permutations(range(81)))
def test_the_order_of_the_records_decides_nothing(order: list[int]) -> None:
    records = healthy_records([0.3 + i % 17 / 30 for i in range(80)])
    observations = [make_started(), *healthy_observations(records)]
    shuffled = make_evidence([records[i] for i in order], observations)
    assert build_report(shuffled) == build_report(make_evidence(records, observations))


def test_it_is_plain_json() -> None:
    report = build_report(make_evidence([], []))
    assert json.loads(report.model_dump_json())["points"] == []


@pytest.mark.parametrize(
    ("cause", "said", "code"),
    [
        ("user", "stopped by the user: Ctrl-C", Exit.INTERRUPTED),
        ("engine", "the engine died: Ctrl-C", Exit.FAILURE),
        ("disk", "nothing more could be written: Ctrl-C", Exit.FAILURE),
        ("client", "the client failed: Ctrl-C", Exit.FAILURE),
    ],
)
def test_a_run_that_was_interrupted_is_partial_and_says_why(cause: str, said: str, code: Exit) -> None:
    records = healthy_records([0.5] * 200)
    end = Interrupted.model_validate({"t": 60.0, "run": 0, "cause": cause, "detail": "Ctrl-C"})
    report = build_report(make_evidence(records, [make_started(), *phases(0, 0)[:3], end]))
    assert (report.partial, report.partial_reason, report.exit_code) == (True, said, code)
    assert report.title == "A test (partial)"
    assert report.not_real == ("partial",)
    assert report.points[0].requests == 200


def test_a_run_without_an_end_was_killed() -> None:
    report = build_report(make_evidence([], [make_started()]))
    assert report.partial
    assert report.partial_reason == "the run has no end: the client was killed"
    assert report.exit_code == Exit.FAILURE


def test_an_end_after_an_interruption_does_not_make_it_whole() -> None:
    end = Interrupted(t=60.0, run=0, cause="user", detail="Ctrl-C")
    assert build_report(make_evidence([], [end, Finished(t=61.0, run=0)])).partial


def test_two_kinds_of_engine_are_none() -> None:
    both = [make_started(), make_started(run=1, kind_of_engine="docker")]
    assert build_report(make_evidence([], both)).engine_kind is None
    assert build_report(make_evidence([], [])).engine_kind is None


def test_the_prediction_can_be_replaced() -> None:
    def nothing_hits(requests: Sequence[ServedPrompt], rules: CacheRules) -> list[HitPrediction]:
        assert rules.block_size == BLOCK
        return [HitPrediction(0, 0, 0) for _ in requests]

    report = build_report(healthy(), predict_hits=nothing_hits)
    assert report.points[0].prefix_cache.predicted_hit_tokens == 0
    assert not report.valid
    assert report.exit_code == Exit.INVALID
