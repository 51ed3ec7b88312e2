"""One verdict per claim, in the order of the rule: comparable, valid, finished, then what the samples prove."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.errors import Exit
from bench.report.build import build_report
from bench.report.claims import asks, exit_code
from bench.report.evidence import Evidence
from bench.report.model import ClaimVerdict
from bench.stats.certificate import allowed_over, refuting_over
from recipes.load import load_recipe
from recipes.schema import Claim
from tests.report.factories import (
    healthy,
    healthy_observations,
    healthy_records,
    make_claim,
    make_client,
    make_evidence,
    make_recipe,
    make_started,
    phases,
)

if TYPE_CHECKING:
    from bench.observe.observations import Observation

LADDER_OF_ONE = {"ladder": [{"streams": 20}]}


def latencies(n: int, over: int) -> list[float]:
    """Some over the limit of 1.05 s, spread over the window so that its beginning decides nothing."""
    slow = {round(k * n / over) for k in range(over)} if over else set()
    return [2.0 if i in slow else 0.5 for i in range(n)]


def judged(evidence: Evidence) -> ClaimVerdict:
    (verdict,) = build_report(evidence).claims
    return verdict


def with_claim(n: int = 300, over: int = 0, *, recipe: dict[str, Any] | None = None, **claim: Any) -> Evidence:
    tables: dict[str, Any] = {"load": LADDER_OF_ONE, "claims": [make_claim(**claim)]} | (recipe or {})
    return healthy(latencies(n, over), points=1, recipe=make_recipe(**tables))


# what the samples prove


@pytest.mark.parametrize(
    ("n", "over", "verdict"),
    [
        (300, 0, "reproduced"),
        (300, 6, "reproduced"),
        (300, 7, "not enough samples"),  # p95 itself is within the limit
        (300, 15, "not enough samples"),
        (300, 24, "not enough samples"),  # p95 itself is over the limit
        (300, 25, "not reproduced"),
        (1000, 34, "reproduced"),
        (1000, 35, "not enough samples"),
        (89, 0, "not enough samples"),
        (90, 0, "reproduced"),
        (40, 40, "not reproduced"),
    ],
)
def test_certified_refuted_or_in_between(n: int, over: int, verdict: str) -> None:
    found = judged(with_claim(n, over))
    assert found.verdict == verdict
    assert found.certificate is not None
    assert (found.certificate.n, found.certificate.over) == (n, over)
    assert found.certificate.certified == (verdict == "reproduced")


@settings(max_examples=40)
@given(n=st.integers(1, 400), data=st.data())
def test_the_verdict_is_the_binomial_bound(n: int, data: st.DataObject) -> None:
    over = data.draw(st.integers(0, n))
    evidence = with_claim(n, over)
    over = sum(value > 1.05 for value in latencies(n, over))
    allowed, refuting = allowed_over(n, 0.95), refuting_over(n, 0.95)
    found = judged(evidence)
    if found.verdict == "invalid measurement":
        return  # chance put the slow ones into the beginning
    assert (found.verdict == "reproduced") == (allowed is not None and over <= allowed)
    assert (found.verdict == "not reproduced") == (refuting is not None and over >= refuting)


def test_reasons_carry_the_counts() -> None:
    share = "of 300 requests were over 1.05 s or failed"
    assert judged(with_claim(300, 6)).reason == f"6 {share}; up to 6 certify it at 99 % confidence"
    assert judged(with_claim(300, 25)).reason == f"25 {share}; 25 refute it at 99 % confidence"
    between = judged(with_claim(300, 7)).reason
    assert between.startswith(f"7 {share}; up to 6 would certify it and 25 refute it at 99 % confidence")
    assert "at least 90 requests are needed" in judged(with_claim(50, 0)).reason


def test_who_beats_a_published_figure_has_reproduced_it() -> None:
    found = judged(with_claim(value_s=30.0))
    assert found.verdict == "reproduced"
    assert found.measured_s == pytest.approx(0.5)


def test_the_tolerance_is_part_of_the_limit() -> None:
    assert judged(with_claim(value_s=0.49, tolerance=0.05)).verdict == "reproduced"
    assert judged(with_claim(value_s=0.49, tolerance=0.01)).verdict == "not reproduced"


def test_other_metrics_and_quantiles() -> None:
    assert judged(with_claim(metric="ttft", value_s=0.21, tolerance=0.0)).verdict == "reproduced"
    assert judged(with_claim(metric="ttft", value_s=0.19, tolerance=0.0)).verdict == "not reproduced"
    # 40 % over: no p90, but a median.
    assert judged(with_claim(300, 100, quantile=0.5)).verdict == "reproduced"
    assert judged(with_claim(300, 100, quantile=0.9)).verdict == "not reproduced"


def test_somebody_elses_engine_is_consistent_at_most() -> None:
    for over, verdict in ((0, "consistent with"), (25, "not reproduced"), (15, "not enough samples")):
        evidence = with_claim(300, over)
        others = [
            seen.model_copy(update={"kind_of_engine": "external"}) if seen.kind == "engine_started" else seen
            for seen in evidence.observations
        ]
        records = healthy_records(latencies(300, over))
        elsewhere = {"gpus": [{"name": "a card of the client's machine"}]}
        report = build_report(make_evidence(records, others, recipe=evidence.recipe, environment=elsewhere))
        assert report.claims[0].verdict == verdict
        assert "external engine" in report.title


def test_what_it_holds_for_names_the_turn_gap() -> None:
    assert judged(with_claim()).holds_for == "a mean turn gap of 4 s (exponential)"


# not comparable


@pytest.mark.parametrize(
    ("claim", "recipe", "said"),
    [
        ({"targets": ["another", "third"]}, {}, "it is about another and third, not about test-h200"),
        ({"hardware": "B200"}, {}, "it was made on B200, this on H200"),
        ({"hardware": "cpu"}, {}, "it was made on cpu, this on H200"),
        ({"precision": "nvfp4"}, {}, "it was made with nvfp4 weights, this with fp8"),
        ({"point": {"streams": 60}}, {}, "60 streams are not in the ladder"),
        ({"point": {"concurrent": 20}}, {}, "20 concurrent requests are not in the ladder"),
        ({"against": "other", "against_value_s": 2.0}, {}, "the change from other"),
        ({}, {"checkpoint": {"real": False}}, "measured with toy weights"),
        ({}, {"checkpoint": {"kind": "dummy", "real": False}}, "measured with dummy weights"),
        (
            {},
            {"engine": {"flags": {"speculative_config": {"rejection_sample_method": "synthetic"}}}},
            "measured with synthetic acceptance",
        ),
        (
            {},
            {"sources": {"workload.prompt_tokens": {"kind": "scaled", "why": "smaller"}}},
            "workload.prompt_tokens was scaled to fit",
        ),
        (
            {},
            {"sources": {"engine.flags.max_num_seqs": {"kind": "scaled", "why": "smaller"}}},
            "engine.flags.max_num_seqs was scaled to fit",
        ),
        ({}, {"overridden": ["workload.prompt_tokens"]}, "workload.prompt_tokens was set on the command line"),
        (
            {},
            {"overridden": ["engine.env.A", "engine.env.B", "engine.env.C", "engine.env.D", "engine.env.E"]},
            "engine.env.A, engine.env.B, engine.env.C and 2 more were set on the command line",
        ),
        ({"hardware": None}, {"hardware": {"kind": "cpu", "gpu": None}}, "measured with CPU"),
    ],
)
def test_not_comparable(claim: dict[str, Any], recipe: dict[str, Any], said: str) -> None:
    found = judged(with_claim(recipe=recipe, **claim))
    assert found.verdict == "not comparable"
    assert said in found.reason
    assert found.certificate is None


def test_every_difference_is_named() -> None:
    found = judged(with_claim(hardware="B200", precision="nvfp4"))
    assert found.reason == "it was made on B200, this on H200; it was made with nvfp4 weights, this with fp8"


@pytest.mark.parametrize("key", ["load.turn_gap.mean_s", "load.runs", "workload.turns", "engine.ready_timeout_s"])
def test_to_set_what_the_article_leaves_open_leaves_it_comparable(key: str) -> None:
    assert judged(with_claim(recipe={"overridden": [key]})).verdict == "reproduced"


def test_a_scaled_load_leaves_it_comparable() -> None:
    scaled = {"load.steady_s": {"kind": "scaled", "why": "shorter"}}
    assert judged(with_claim(recipe={"sources": scaled})).verdict == "reproduced"


def test_what_the_source_does_not_say_is_no_difference() -> None:
    assert judged(with_claim(hardware=None, precision=None)).verdict == "reproduced"


def test_the_projects_own_claims_are_about_what_they_were_made_with() -> None:
    toy_on_cpu = {
        "hardware": {"kind": "cpu", "gpu": None},
        "checkpoint": {"kind": "bundled", "real": False},
        "sources": {"workload.prompt_tokens": {"kind": "scaled", "why": "smaller"}},
    }
    assert judged(with_claim(recipe=toy_on_cpu, by="project", hardware="cpu")).verdict == "reproduced"
    assert judged(with_claim(recipe=toy_on_cpu, by="article", hardware="cpu")).verdict == "not comparable"
    assert judged(with_claim(recipe=toy_on_cpu, by="project", hardware="H200")).verdict == "not comparable"


@pytest.mark.parametrize(
    ("environment", "verdict"),
    [
        ({"gpus": [{"name": "NVIDIA H200"}]}, "reproduced"),
        ({"gpus": [{"name": "NVIDIA B200"}]}, "not comparable"),
        ({"gpus": [{"name": "NVIDIA B200"}, {"name": "NVIDIA H200"}]}, "reproduced"),
        ({"gpus": []}, "reproduced"),
        ({"gpus": None}, "reproduced"),
        ({"gpus": ["odd"]}, "reproduced"),
    ],
)
def test_the_gpu_that_was_found_counts(environment: dict[str, Any], verdict: str) -> None:
    whole = with_claim()
    evidence = make_evidence(
        healthy_records(latencies(300, 0)), whole.observations, recipe=whole.recipe, environment=environment
    )
    assert judged(evidence).verdict == verdict


def test_the_articles_claims_on_its_own_recipe_are_comparable_and_on_others_not() -> None:
    recipe = load_recipe("b200-nvfp4")
    report = build_report(make_evidence([], [], recipe=recipe))
    comparable = {claim.id for claim in report.claims if claim.verdict != "not comparable"}
    assert comparable == {"b200-40", "b200-60"}
    for target in ("cpu", "h200-fp8-dummy"):
        report = build_report(make_evidence([], [], recipe=load_recipe(target)))
        assert all(claim.verdict == "not comparable" for claim in report.claims if claim.by == "article")


# invalid, unfinished


def test_a_broken_rule_at_the_point_spoils_the_claim() -> None:
    recipe = make_recipe(load=LADDER_OF_ONE, claims=[make_claim()])
    records = healthy_records(latencies(300, 0))
    observations = [make_started(), *healthy_observations(records, prompt_tokens=5.0)]
    found = judged(make_evidence(records, observations, recipe=recipe))
    assert found.verdict == "invalid measurement"
    assert found.reason.startswith("client totals equal the engine's: the engine counted 301 requests, 5 prompt")
    assert found.certificate is None


def test_a_broken_rule_of_the_whole_run_spoils_the_claim() -> None:
    whole = healthy(latencies(300, 0), recipe=make_recipe(claims=[make_claim()]))
    repeated = healthy_records(latencies(300, 0))[1].segments
    records = [
        *healthy_records(latencies(300, 0)),
        *healthy_records(latencies(300, 0), point=1, at=1000.0),
    ]
    records[-1] = replace(records[-1], segments=repeated)
    found = judged(make_evidence(records, whole.observations, recipe=whole.recipe))
    assert found.verdict == "invalid measurement"
    assert found.reason.startswith("prompts never repeat between points: prompts that were also sent")


def test_a_broken_rule_at_another_point_leaves_the_claim_alone() -> None:
    evidence = healthy(latencies(300, 0), recipe=make_recipe(claims=[make_claim()]))
    busy = list(evidence.observations)
    (at,) = (number for number, seen in enumerate(busy) if seen.kind == "client" and seen.point == 1)
    busy[at] = make_client(point=1, lag_p99_s=1.0)
    records = healthy_records(latencies(300, 0)) + healthy_records(latencies(300, 0), point=1, at=1000.0)
    report = build_report(make_evidence(records, busy, recipe=evidence.recipe))
    assert report.claims[0].verdict == "reproduced"
    assert not report.valid
    assert report.exit_code == Exit.INVALID


def test_a_point_that_was_not_finished_proves_nothing() -> None:
    recipe = make_recipe(load=LADDER_OF_ONE, claims=[make_claim()])
    records = healthy_records(latencies(300, 0))
    unfinished: list[list[Observation]] = [[make_started(), *phases(0, 0)[:4]], []]
    for observations in unfinished:
        found = judged(make_evidence(records if observations else [], observations, recipe=recipe))
        assert found.verdict == "not enough samples"
        assert found.reason == "the point of 20 streams was not finished"


# in words


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "p95 of E2E at 20 streams at most 1.05 s (1 s + 5 %)"),
        (
            {"point": {"streams": 40}, "value_s": 0.5},
            "p95 of E2E at 40 streams at most 525 ms (500 ms + 5 %)",
        ),
        (
            {"point": {"concurrent": 16}, "metric": "ttft", "quantile": 0.5, "tolerance": 0.0},
            "p50 of TTFT at 16 concurrent requests at most 1 s (1 s + 0 %)",
        ),
        (
            {"value_s": 0.8, "tolerance": 0.0625, "against": "b200-fp8", "against_value_s": 0.6},
            "p95 of E2E at 20 streams at most 850 ms (800 ms + 6.25 %), beside b200-fp8 at 600 ms",
        ),
        ({"against": "b200-fp8"}, "p95 of E2E at 20 streams at most 1.05 s (1 s + 5 %), beside b200-fp8"),
    ],
)
def test_a_claim_as_a_condition(changes: dict[str, Any], words: str) -> None:
    assert asks(Claim.model_validate(make_claim(**changes))) == words


# exit codes

IDS = count()


def verdict_of(verdict: str) -> ClaimVerdict:
    return judged(with_claim()).model_copy(update={"verdict": verdict, "id": f"claim-{next(IDS)}"})


@pytest.mark.parametrize(
    ("verdicts", "valid", "partial", "by_user", "code"),
    [
        ([], True, False, False, Exit.OK),
        (["reproduced", "consistent with", "not comparable"], True, False, False, Exit.OK),
        (["reproduced", "not reproduced"], True, False, False, Exit.CLAIM_FAILED),
        (["reproduced", "not enough samples"], True, False, False, Exit.CLAIM_FAILED),
        (["reproduced", "invalid measurement"], False, False, False, Exit.INVALID),
        (["not reproduced"], False, False, False, Exit.INVALID),
        (["reproduced"], True, True, True, Exit.INTERRUPTED),
        (["reproduced"], True, True, False, Exit.FAILURE),
        (["reproduced"], False, True, True, Exit.INTERRUPTED),
    ],
)
def test_exit_codes(verdicts: list[str], valid: bool, partial: bool, by_user: bool, code: Exit) -> None:
    claims = [verdict_of(verdict) for verdict in verdicts]
    assert exit_code(claims, valid=valid, partial=partial, by_user=by_user) == code
