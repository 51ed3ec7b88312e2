from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import StreamproofError
from bench.observe.probe import Pair
from bench.records import Outcome
from bench.report.build import build_report
from bench.report.measurement import Measurement
from bench.report.rules_probe import ANSWERED, CACHED, REPEATED, RULES, compared, same_answers
from tests.report.factories import healthy, make_recipe, make_started
from tests.report.probes import IDS, make_odds, make_probed, make_reply, make_trial

if TYPE_CHECKING:
    from bench.observe.observations import Observation, Probed
    from bench.observe.probe import ProbeTrial
    from bench.report.evidence import Evidence
    from bench.report.model import Check
    from recipes.schema import Recipe

PARTS = (*IDS[:4], 7, 7, 7, 7, 7, 7)
"""Parts from the usual reply after four tokens, where 104 stood."""
SYNTHETIC = {"flags": {"speculative_config": {"method": "mtp", "rejection_sample_method": "synthetic"}}}
DUMMY = {"kind": "dummy", "name": "a/b", "precision": "fp8", "real": False}


def evidence(*probes: Probed, recipe: Recipe | None = None, runs: int = 1) -> Evidence:
    whole = healthy(points=1, runs=runs, recipe=recipe)
    return replace(whole, observations=(*whole.observations, *probes))


def judged(*probes: Probed, recipe: Recipe | None = None, runs: int = 1) -> dict[str, Check]:
    checks = same_answers(Measurement.of(evidence(*probes, recipe=recipe, runs=runs)))
    assert all(check.point is None for check in checks)
    return {check.rule: check for check in checks}


def after_ladder(trial: ProbeTrial | None = None) -> Probed:
    return make_probed("after", *(() if trial is None else (trial,)))


def both(trial: ProbeTrial | None = None, recipe: Recipe | None = None) -> dict[str, Check]:
    """With this trial before the ladder, and a sound one after it."""
    return judged(make_probed("before", *(() if trial is None else (trial,))), after_ladder(), recipe=recipe)


def test_equal_answers_and_exact_counts() -> None:
    checks = both()
    assert {rule: check.verdict for rule, check in checks.items()} == dict.fromkeys(RULES, "kept")
    assert checks[ANSWERED].measured == "10 requests, 500 prompt tokens, 100 reply tokens"
    # A2 and A3 before, A2 and A3 after, A2 before and A3 after; A1 and A2 against A.
    assert checks[REPEATED].measured == "3 of 3 pairs of replies are the same, 30 tokens in all"
    assert checks[CACHED].measured.startswith(
        "2 of 2 pairs of replies are the same, 20 tokens in all; 96 of 250 prompt"
    )


def test_a_report_from_before_there_was_a_probe_has_no_such_rule() -> None:
    assert judged() == {}
    report = build_report(healthy())
    assert not {check.rule for check in report.checks} & set(RULES)
    assert report.valid


RIGHT, WRONG = {104: -0.1, 7: -3.0}, {7: -0.1, 104: -3.0}


@pytest.mark.parametrize(
    ("replies", "cached_row", "rule"),
    [
        ({"A3": PARTS}, RIGHT, REPEATED),
        ({"A1": PARTS}, RIGHT, CACHED),
        ({"A1": PARTS, "A2": PARTS, "A3": PARTS}, WRONG, CACHED),
    ],
    ids=["after B", "once from the cache", "whenever it comes from the cache"],
)
def test_another_answer_makes_the_run_invalid(replies: dict[str, Any], cached_row: dict[int, float], rule: str) -> None:
    odds = (make_odds(4, cached_row), make_odds(4, RIGHT, cached=False))
    trial = make_trial(odds=odds, **replies)
    report = build_report(evidence(make_probed("before", trial), after_ladder(trial)))
    assert not report.valid
    (broken,) = (check for check in report.checks if check.verdict == "broken")
    assert broken.rule == rule
    assert "prompt of router" in broken.measured
    assert "after 4 of 10 tokens" in broken.measured
    assert broken.advice


def test_after_the_ladder_the_answer_is_still_the_one_before_it() -> None:
    """A cached prompt that the ladder spoiled gets one and the same wrong answer ever after."""
    odds = (make_odds(4, {7: -0.1, 104: -3.0}), make_odds(4, {104: -0.1, 7: -3.0}, cached=False))
    spoiled = make_trial(odds=odds, A=PARTS, A1=PARTS, A2=PARTS, A3=PARTS)
    check = judged(make_probed(), after_ladder(spoiled))[REPEATED]
    assert check.verdict == "broken"
    assert "the ladder between them" in check.measured
    assert "5.80 nats" in check.measured


def test_replies_that_part_at_a_tie_are_told_and_the_rule_is_kept() -> None:
    trial = make_trial(odds=(make_odds(4, {104: -0.70, 7: -0.75}),), A3=PARTS)
    check = both(trial)[REPEATED]
    assert check.verdict == "kept"
    assert "1 at a tie" in check.measured
    assert "0.05 nats; a tie by 0.25 at most" in check.measured


def test_ties_alone_say_too_little() -> None:
    odds = (make_odds(4, {104: -0.70, 7: -0.75}), make_odds(4, {104: -0.70, 7: -0.75}, cached=False))
    early = make_trial(odds=odds, A3=PARTS)
    late = make_trial(odds=odds, A2=IDS, A3=PARTS)
    parted = judged(make_probed("before", early), after_ladder(late))[REPEATED]
    assert parted.verdict == "kept"  # three times four tokens are more than a reply of ten
    first = make_trial(odds=(make_odds(0, {100: -0.70, 7: -0.75}),), A3=(7,) * 10)
    check = judged(make_probed("before", first), make_probed("after", make_trial(A2=None, A3=None)))[REPEATED]
    assert check.verdict == "unknown"
    assert "0 of 1 pairs" in check.measured


def test_a_token_that_nobody_would_have_chosen_is_no_tie() -> None:
    """Both candidates are equally unlikely, and far behind a third."""
    trial = make_trial(odds=(make_odds(4, {5: -0.01, 104: -6.0, 7: -6.0}),), A3=PARTS)
    assert both(trial)[REPEATED].verdict == "broken"


def test_without_log_probabilities_a_difference_is_unknown() -> None:
    check = both(make_trial(A3=PARTS))[REPEATED]
    assert check.verdict == "unknown"
    assert "whether at a tie is not known" in check.measured


def test_random_weights_are_allowed_half_of_what_another_prompt_does() -> None:
    beside = (make_odds(0, {100: -1.0, 200: -3.0}), make_odds(0, {200: -1.0, 100: -3.0}, of="B"))
    for lead, verdict in ((1.9, "kept"), (2.1, "broken")):
        trial = make_trial(odds=(make_odds(4, {104: -1.0, 7: -1.0 - lead}), *beside), A3=PARTS)
        assert both(trial, make_recipe(checkpoint=DUMMY))[REPEATED].verdict == verdict
        assert both(trial)[REPEATED].verdict == "broken"  # and trained ones are not


def test_accepted_at_random_replies_mean_nothing_but_counts_do() -> None:
    recipe = make_recipe(engine=SYNTHETIC)
    checks = both(make_trial(A3=PARTS), recipe)
    assert (checks[ANSWERED].verdict, checks[REPEATED].verdict, checks[CACHED].verdict) == (
        "kept",
        "unknown",
        "unknown",
    )
    assert checks[REPEATED].measured.startswith("not applicable: drafts are accepted at random")
    lost = make_trial(A3=make_reply(outcome=Outcome.CUT, error="the connection was reset"))
    assert both(lost, recipe)[ANSWERED].verdict == "broken"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"outcome": Outcome.TIMEOUT, "error": "no complete reply within 60 s"}, "A1 of router, before the ladder"),
        ({"outcome": Outcome.HTTP_ERROR, "status": 503, "error": "503 overloaded"}, "503 overloaded"),
        ({"outcome": Outcome.SHORT, "completion_tokens": 9}, "short"),
        ({"completion_tokens": 9}, "wrong token counts"),
        ({"prompt_tokens": 49}, "wrong token counts"),
        ({"token_ids": IDS[:-1]}, "wrong token counts"),
        ({"finish_reason": None}, "wrong token counts"),
        ({"status": 404, "outcome": Outcome.HTTP_ERROR, "error": "404 no such path"}, "404 no such path"),
    ],
    ids=str,
)
def test_a_lost_request_or_a_wrong_count(changes: dict[str, Any], words: str) -> None:
    check = both(make_trial(A1=make_reply(**changes)))[ANSWERED]
    assert check.verdict == "broken"
    assert words in check.measured


def test_what_somebody_else_s_server_refuses_is_unknown() -> None:
    refused = make_reply(None, status=404, outcome=Outcome.HTTP_ERROR, error="404 Not Found")
    trial = make_trial().model_copy(update={"replies": {"A": refused}})
    whole = evidence(make_probed("before", trial), make_probed("after", trial))
    external = make_started(kind_of_engine="external", argv=None, packages_sha256=None, ready_s=None)
    seen = (external, *(each for each in whole.observations if each.kind != "engine_started"))
    checks = {check.rule: check for check in same_answers(Measurement.of(replace(whole, observations=seen)))}
    assert {check.verdict for check in checks.values()} == {"unknown"}
    assert "404 Not Found" in checks[ANSWERED].measured


@pytest.mark.parametrize(
    ("counter", "told"),
    [
        ("requests_finished", "82 requests"),
        ("prompt_tokens", "327 prompt tokens"),
        ("generation_tokens", "127 reply tokens"),
    ],
)
def test_the_engine_counted_something_else(counter: str, told: str) -> None:
    other: dict[str, Any] = {counter: 77}
    check = judged(make_probed(**other), after_ladder())[ANSWERED]
    assert check.verdict == "broken"
    assert told in check.measured


def test_without_counters_the_counts_are_unknown() -> None:
    none: dict[str, Any] = dict.fromkeys(("requests_finished", "prompt_tokens", "generation_tokens"))
    checks = judged(make_probed(**none), after_ladder())
    assert checks[ANSWERED].verdict == "unknown"
    assert checks[REPEATED].verdict == "kept"


def test_odds_that_a_server_does_not_give_are_no_lost_request() -> None:
    odds = make_odds(4, {})
    refused = make_reply(
        None,
        status=400,
        outcome=Outcome.HTTP_ERROR,
        error="400 max_logprobs",
        prompt_tokens=None,
        completion_tokens=None,
    )
    trial = make_trial(odds=(odds.model_copy(update={"reply": refused}),), A3=PARTS)
    whole: dict[str, Any] = {"requests_finished": 5, "prompt_tokens": 250, "generation_tokens": 50}
    checks = judged(make_probed("before", trial, **whole), after_ladder())
    assert (checks[ANSWERED].verdict, checks[REPEATED].verdict) == ("kept", "unknown")


def test_a_server_that_does_not_say_its_tokens() -> None:
    trial = make_trial(A=None, A1=None, A2=None, B=None, A3=None)
    checks = judged(make_probed("before", trial), after_ladder(trial))
    assert (checks[ANSWERED].verdict, checks[REPEATED].verdict, checks[CACHED].verdict) == (
        "kept",
        "unknown",
        "unknown",
    )
    assert "does not say which tokens" in checks[REPEATED].measured


def test_a_run_that_was_cut_off_before_the_second_probe() -> None:
    checks = judged(make_probed())
    assert (checks[ANSWERED].verdict, checks[REPEATED].verdict, checks[CACHED].verdict) == (
        "unknown",
        "unknown",
        "kept",
    )
    assert "did not come to its end" in checks[REPEATED].measured


def test_a_second_engine_start_that_was_not_probed_is_not_vouched_for_by_the_first() -> None:
    checks = judged(make_probed(), after_ladder(), runs=2)
    assert {check.verdict for check in checks.values()} == {"unknown"}
    assert all(check.measured.startswith("run 1: ") for check in checks.values())


def test_another_prompt_with_the_same_reply_makes_equal_replies_worthless() -> None:
    assert both(make_trial(B=IDS))[REPEATED].verdict == "unknown"


def test_nothing_from_the_cache_says_nothing_of_the_cache() -> None:
    check = judged(make_probed(prompt_tokens_cached=0), after_ladder())[CACHED]
    assert check.verdict == "unknown"
    assert "0 of 250 prompt tokens came from the cache" in check.measured


def test_without_prefix_caching_there_is_no_rule_about_it() -> None:
    whole = evidence(make_probed(), after_ladder())
    seen = (make_started(prefix_caching=False), *(each for each in whole.observations if each.kind != "engine_started"))
    assert [check.rule for check in same_answers(Measurement.of(replace(whole, observations=seen)))] == [
        ANSWERED,
        REPEATED,
    ]


def test_a_probe_that_is_there_twice_is_a_contradiction() -> None:
    twice: list[Observation] = [make_probed(), make_probed()]
    with pytest.raises(StreamproofError, match="the probe before the ladder is there twice"):
        Measurement.of(replace(healthy(), observations=tuple(twice)))


@given(st.floats(-20, 0), st.floats(-20, 0), st.floats(-20, 0), st.sampled_from(["repeated", "cached", "ladder"]))
def test_a_tie_does_not_depend_on_which_reply_came_first(one: float, other: float, third: float, what: Any) -> None:
    row, cold = {104: one, 7: other, 9: third}, {104: one, 7: other, 9: third}
    trial = make_trial(odds=(make_odds(4, row), make_odds(4, cold, cached=False)))
    there = compared(Pair(what, IDS, PARTS), trial, trained=True)
    back = compared(Pair(what, PARTS, IDS), trial, trained=True)
    assert there.says in {"tie", "different"}
    assert there.says == back.says
