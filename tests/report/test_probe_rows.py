"""Two prompts that get the same reply: what their log-probabilities say, in reports of now and of before."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from bench.observe.observations import OBSERVATION
from bench.observe.probe import ROW_STEPS
from bench.records import Outcome
from bench.report.build import build_report
from bench.report.measurement import Measurement
from bench.report.rules_probe import ANSWERED, CACHED, REPEATED, RULES, same_answers
from tests.report.factories import healthy
from tests.report.probes import IDS, make_probed, make_reply, make_rows, make_trial

if TYPE_CHECKING:
    from bench.observe.observations import Probed
    from bench.observe.probe import ProbeTrial
    from bench.report.evidence import Evidence
    from bench.report.model import Check

EQUAL = "another prompt got the same reply, too"


def silent(apart: float = 0.01, path: float = 0.0, **moved: float) -> ProbeTrial:
    """Of an agent whose two prompts get the same reply."""
    return make_trial(rows=make_rows(apart, path, **moved), B=IDS)


def evidence(*probes: Probed) -> Evidence:
    whole = healthy(points=1)
    return replace(whole, observations=(*whole.observations, *probes))


def judged(before: ProbeTrial, after: ProbeTrial, **counters: Any) -> dict[str, Check]:
    probes = make_probed("before", before, **counters), make_probed("after", after, **counters)
    return {check.rule: check for check in same_answers(Measurement.of(evidence(*probes)))}


def test_rows_that_stay_decide_what_equal_replies_do_not() -> None:
    checks = judged(silent(), silent())
    assert {check.verdict for check in checks.values()} == {"kept"}
    assert checks[ANSWERED].measured.startswith("22 requests, 1,100 prompt tokens, 112 reply tokens")
    words = f"{EQUAL}, but not the same log-probabilities: they are 0.012 nats away over 19 tokens, where 0 nats"
    for rule in (REPEATED, CACHED):
        assert words in checks[rule].measured
        assert "moved 25% of the way to another prompt's at most" in checks[rule].expected


@pytest.mark.parametrize(
    ("before", "after", "rule", "between"),
    [
        (silent(A3=0.01), silent(), REPEATED, "another request between them"),
        (silent(), silent(A3=0.009), REPEATED, "another request between them"),
        (silent(path=0.03, A3=0.01), silent(path=0.03), REPEATED, "another request between them"),
        (silent(), silent(A1=0.01, A2=0.01, A3=0.01), REPEATED, "the ladder between them"),
        (silent(A1=0.01, A2=0.01, A3=0.01), silent(), CACHED, "the second one from the cache"),
    ],
    ids=["before the ladder", "after it", "where the cache rounds otherwise", "over it", "cached"],
)
def test_a_row_that_moved_to_another_prompt_s_makes_the_run_invalid(
    before: ProbeTrial, after: ProbeTrial, rule: str, between: str
) -> None:
    report = build_report(evidence(make_probed("before", before), make_probed("after", after)))
    assert not report.valid
    (broken,) = (check for check in report.checks if check.verdict == "broken")
    assert broken.rule == rule
    assert f"the log-probabilities behind the same prompt of router ({between}) moved by" in broken.measured
    assert "% of the way to another prompt's; repeats differ by 0 nats" in broken.measured
    assert broken.advice


@pytest.mark.parametrize(
    ("trial", "words"),
    [
        (silent(A3=0.005), "moved by 0.0058 nats, 50% of the way to the other prompt's, which are 0.012 nats away"),
        (silent(A3=-0.01), "-100% of the way"),
        (silent(A1=0.004), "which is not 4 times what repeats (0.0046 nats) and float32 differ by"),
        (silent(apart=0.0), "the other prompt's are 0 nats away"),
        (silent(B=0.0), "the other prompt's are 0 nats away"),
    ],
    ids=["half way", "elsewhere", "repeats differ", "prompts do not", "prompts do not where they are cached"],
)
def test_what_lies_between_or_cannot_be_told_apart_is_unknown(trial: ProbeTrial, words: str) -> None:
    check = judged(trial, silent())[REPEATED]
    assert check.verdict == "unknown"
    assert check.measured.startswith(f"{EQUAL}, and log-probabilities do not tell: ")
    assert words in check.measured
    assert "VLLM_BATCH_INVARIANT" in check.advice


def test_rounding_of_a_prefix_that_comes_from_the_cache_is_no_other_state() -> None:
    """Further than the other prompt, and not towards it."""
    rounded = silent(path=0.03)
    checks = judged(rounded, rounded)
    assert (checks[REPEATED].verdict, checks[CACHED].verdict) == ("kept", "unknown")
    assert "the second one from the cache" in checks[CACHED].measured


@pytest.mark.parametrize("moved", [{"A1": 0.0027, "A2": 0.002}, {"A1": 0.002, "A2": 0.0027}])
def test_every_row_from_the_cache_is_judged(moved: dict[str, float]) -> None:
    """One of the two went more than a quarter of the way."""
    assert judged(silent(A1=0.002, A2=0.002), silent())[CACHED].verdict == "kept"
    assert judged(silent(**moved), silent())[CACHED].verdict == "unknown"


def test_one_agent_s_rounding_is_no_excuse_for_another_s_rows() -> None:
    rounding = silent(A1=0.01).model_copy(update={"agent": "booking"})
    probes = make_probed("before", silent(A3=0.01), rounding), make_probed("after", silent(), rounding)
    checks = {check.rule: check for check in same_answers(Measurement.of(evidence(*probes)))}
    assert checks[REPEATED].verdict == "broken"
    assert "of router" in checks[REPEATED].measured


def test_a_reply_that_parts_elsewhere_is_told_first() -> None:
    trial = make_trial(rows=make_rows(A3=0.01), B=IDS, A3=(*IDS[:4], 7, 7, 7, 7, 7, 7))
    check = judged(trial, silent())[REPEATED]
    assert check.verdict == "broken"  # a tie is not known of these tokens; that B's row was reached is
    assert "log-probabilities behind" in check.measured


@pytest.mark.parametrize("missing", ROW_STEPS)
def test_a_row_that_is_missing(missing: Any) -> None:
    rows = {step: row for step, row in make_rows().items() if step != missing}
    for rule, check in judged(make_trial(rows=rows, B=IDS), silent()).items():
        assert check.verdict == ("kept" if rule == ANSWERED else "unknown")
        if rule != ANSWERED:
            assert check.measured == (
                f"{EQUAL}: equal replies say little, and there are no log-probabilities that would say more"
            )


@pytest.mark.parametrize(("step", "moved"), [("A0", 0.01), ("B0", 0.0), ("A1", 0.01)])
def test_what_rounding_does_after_the_ladder_it_may_do_before_it(step: str, moved: float) -> None:
    """The same row from scratch, or again with nothing between, is another one: then no movement is anybody's."""
    leaking, rounding = silent(A3=0.01), silent(**{step: moved})
    assert judged(leaking, silent())[REPEATED].verdict == "broken"
    assert judged(leaking, rounding)[REPEATED].verdict == "unknown"


def test_rows_of_one_moment_alone_say_nothing_of_the_ladder() -> None:
    before = make_trial(B=IDS)
    checks = judged(before, silent())
    assert {checks[rule].verdict for rule in (REPEATED, CACHED)} == {"unknown"}


def test_a_server_that_refuses_log_probabilities_has_lost_no_request() -> None:
    row = make_rows()["A1"]
    refused = make_reply(
        None,
        status=400,
        outcome=Outcome.HTTP_ERROR,
        error="400 max_logprobs",
        prompt_tokens=None,
        completion_tokens=None,
    )
    trial = make_trial(rows={"A1": row.model_copy(update={"likely": (), "reply": refused})}, B=IDS)
    whole: dict[str, Any] = {"requests_finished": 5, "prompt_tokens": 250, "generation_tokens": 50}
    checks = judged(trial, trial, **whole)
    assert (checks[ANSWERED].verdict, checks[REPEATED].verdict) == ("kept", "unknown")


def test_a_row_that_was_lost_is_a_lost_request() -> None:
    rows = make_rows()
    lost = make_reply(None, status=None, outcome=Outcome.TIMEOUT, error="no complete reply within 60 s")
    rows["B"] = rows["B"].model_copy(update={"likely": (), "reply": lost})
    check = judged(make_trial(rows=rows, B=IDS), silent())[ANSWERED]
    assert check.verdict == "broken"
    assert "no complete reply within 60 s" in check.measured


def test_a_report_of_before_gets_the_words_that_it_got() -> None:
    """Nothing in it says that log-probabilities were asked for."""
    line = make_probed("before", make_trial(B=IDS)).model_dump(mode="json")
    del line["trials"][0]["rows"]
    before = OBSERVATION.validate_python(line)
    after = OBSERVATION.validate_python(line | {"when": "after", "t": 5000.0})
    checks = {check.rule: check for check in same_answers(Measurement.of(evidence(before, after)))}  # type: ignore[arg-type]
    assert checks.keys() == set(RULES)
    for rule in (REPEATED, CACHED):
        check = checks[rule]
        assert (check.verdict, check.measured, check.expected, check.advice) == (
            "unknown",
            "another prompt got the same reply, too: equal replies say little",
            "the same tokens, or a tie where they part",
            "Let the run end, on an engine that gives token ids and log-probabilities.",
        )
