"""The outcome of a search is a function of its evidence, and evidence that was bent does not pass."""

from dataclasses import replace
from typing import Any

import pytest

from bench.errors import Exit
from bench.explain.search.boundary import Candidate, Search
from bench.explain.search.find import RULE
from bench.explain.search.words import answer_of, says
from bench.observe.observations import Gauges
from bench.report import rules_client
from bench.report.build import build_report
from bench.report.claims import exit_code
from bench.report.evidence import Evidence
from bench.report.measurement import Measurement
from bench.report.model import Report
from bench.report.render.html import render_page
from bench.report.render.markdown import render_markdown
from bench.report.render.verdict import headline
from recipes.schema import Claim, Point
from tests.explain.search.evidence import searched_evidence
from tests.explain.search.laws import asked
from tests.report.factories import make_claim


def cliff(streams: float) -> float:
    return 0.004 if streams <= 13 else 0.6


def with_ladder(evidence: Evidence, ladder: list[Point]) -> Evidence:
    load = evidence.recipe.load.model_copy(update={"ladder": ladder})
    return replace(evidence, recipe=evidence.recipe.model_copy(update={"load": load}))


def check_of(report: Report) -> tuple[str, str]:
    (check,) = (check for check in report.checks if check.rule == RULE)
    return check.verdict, check.measured


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    return searched_evidence((asked(),), cliff)


def test_a_boundary_is_certified_and_said(evidence: Evidence) -> None:
    report = build_report(evidence)
    (outcome,) = report.searches
    assert (report.valid, report.exit_code) == (True, Exit.OK)
    assert (outcome.answer, outcome.holds, outcome.fails) == ("boundary", 13, 14)
    assert outcome.says == (
        "p95 of E2E at most 1 s holds at 13 streams (certified at 95 %), and not at 14 streams, the next one"
    )
    assert [(proof.setting, proof.settled) for proof in outcome.proofs] == [
        ("13 streams", "holds"),
        ("14 streams", "does not hold"),
    ]
    assert outcome.crossing is not None
    assert 13 < outcome.crossing < 14
    assert sum(len(each.points) for each in outcome.measured) == len(report.points)
    assert check_of(report)[0] == "kept"


def test_it_is_in_every_form_of_the_report(evidence: Evidence) -> None:
    report = build_report(evidence)
    page, text = render_page(report, evidence), render_markdown(report)
    for drawn in (page, text):
        assert "holds at 13 streams (certified at 95 %)" in drawn
        assert "at least 3." in drawn  # the cliff
    assert 'id="search"' in page
    assert 'href="#claims"' not in page
    again = Report.model_validate_json(report.model_dump_json())
    assert again == report
    assert "searches" not in build_report(replace(evidence, observations=evidence.observations[1:])).model_dump()


@pytest.mark.parametrize("what", ["left out", "added", "another"])
def test_a_ladder_that_the_search_did_not_ask_for_is_found_out(evidence: Evidence, what: str) -> None:
    ladder = list(evidence.recipe.load.ladder)
    bent = {
        "left out": [*ladder[:2], *ladder[3:], Point(streams=1)],
        "added": [*ladder, Point(streams=13)],
        "another": [ladder[0], Point(streams=9), *ladder[2:]],
    }[what]
    report = build_report(with_ladder(evidence, bent))
    assert check_of(report)[0] == "broken"
    assert (report.valid, report.exit_code) == (False, Exit.INVALID)
    assert report.searches[0].answer == "invalid measurement"


def test_a_run_that_was_cut_off_keeps_what_was_settled() -> None:
    whole = searched_evidence((asked(),), cliff, end=False)
    report = build_report(whole)
    assert report.partial
    assert report.searches[0].holds == 13
    last = len(whole.recipe.load.ladder) - 1
    cut = replace(
        whole,
        observations=tuple(
            seen
            for seen in whole.observations
            if not (getattr(seen, "point", None) == last and getattr(seen, "phase", None) in {"drain", "done"})
        ),
    )
    report = build_report(cut)
    (outcome,) = report.searches
    assert outcome.answer == "cut off"
    assert outcome.says.startswith("the search was cut off; ")
    assert outcome.holds == 13
    assert outcome.fails is None
    assert check_of(report)[0] == "kept"


def test_nothing_was_measured_and_the_report_says_so() -> None:
    whole = searched_evidence((asked(),), cliff, end=False)
    none = replace(whole, records=whole.records.slice(0, 0), observations=whole.observations[:2])
    report = build_report(with_ladder(none, [Point(streams=4)]))
    (outcome,) = report.searches
    assert outcome.says == "the search was cut off; nothing was settled yet"
    assert render_page(report, none)


def test_a_limit_that_holds_beyond_a_load_that_breaks_it_has_no_boundary() -> None:
    evidence = searched_evidence((asked(),), lambda streams: 0.6 if streams in {13, 14, 15} or streams > 16 else 0.001)
    (outcome,) = build_report(evidence).searches
    assert outcome.holds == 16
    state = Search(candidates={15: Candidate(15, 1, settled="holds"), 12: Candidate(12, 2, settled="does not hold")})
    assert answer_of(asked(), state, cut=False, invalid=False) == "not in order"
    assert "there is no boundary" in says(asked(), state, "not in order", comparable=True)
    bent = outcome.model_copy(update={"answer": "not in order"})
    assert not bent.found
    assert exit_code((), (bent,), valid=True, partial=False, by_user=False) == Exit.CLAIM_FAILED


@pytest.mark.parametrize(
    ("share", "answer", "code"),
    [(lambda _: 0.001, "holds throughout", Exit.OK), (lambda _: 0.5, "holds nowhere", Exit.CLAIM_FAILED)],
)
def test_everywhere_and_nowhere(share: Any, answer: str, code: Exit) -> None:
    question = asked(values=(1.0, 2.0, 3.0, 4.0), start=0)
    report = build_report(searched_evidence((question,), share))
    assert (report.searches[0].answer, report.exit_code) == (answer, code)
    assert report.valid


def test_too_few_requests_settle_nothing() -> None:
    report = build_report(searched_evidence((asked(),), cliff, requests=5))
    assert report.searches[0].answer == "undecided"
    assert "lengthen load.steady_s" in report.searches[0].says
    assert headline(report).tone == "warn"
    assert report.exit_code == Exit.CLAIM_FAILED


def test_only_rules_where_the_answer_rests_spoil_it(evidence: Evidence) -> None:
    ladder = [point.streams for point in evidence.recipe.load.ladder]
    confirmed_13 = max(index for index, streams in enumerate(ladder) if streams == 13)
    confirmed_14 = max(index for index, streams in enumerate(ladder) if streams == 14)
    explored_16 = ladder.index(16)
    question = (asked(),)

    def valid(point: int, **counters: float) -> bool:
        return build_report(searched_evidence(question, cliff, bend={point: counters})).valid

    # An overloaded engine preempts: that is how it does not hold, and no reason to disbelieve it.
    assert valid(confirmed_14, preemptions=3.0)
    assert not valid(confirmed_13, preemptions=3.0)
    assert valid(explored_16, generation_tokens=1.0)
    assert not valid(confirmed_14, generation_tokens=1.0)


def test_a_cliff_is_named_with_what_changed_there(evidence: Evidence) -> None:
    ladder = [point.streams for point in evidence.recipe.load.ladder]
    bend = {index: {"preemptions": 7.0} for index, streams in enumerate(ladder) if streams == 14}
    bent = searched_evidence((asked(),), cliff, bend=bend)
    waits = tuple(
        Gauges(t=index * 1000.0 + 50, run=0, running=9.0, waiting=8.0 if streams == 14 else 0.0, kv_usage=1.0)
        for index, streams in enumerate(ladder)
        if streams is not None
    )
    (cliff_found, *_) = build_report(replace(bent, observations=bent.observations + waits)).searches[0].cliffs
    assert (cliff_found.before, cliff_found.after) == ("13 streams", "14 streams")
    assert cliff_found.factor is not None
    assert cliff_found.factor > 2
    told = "; ".join(cliff_found.evidence)
    assert "14 requests were preempted, none before" in told
    assert "8.0 requests wait in the engine on average, 0.0 before" in told
    assert "saturated" in told


def test_a_smooth_curve_has_no_cliff() -> None:
    report = build_report(searched_evidence((asked(),), lambda streams: 0.003 * streams))
    assert report.searches[0].cliffs == ()


def test_a_claim_is_reproduced_for_the_turn_gaps_that_hold() -> None:
    claim = Claim.model_validate(make_claim(point={"streams": 20}, value_s=0.95))
    gaps = (16.0, 8.0, 4.0, 2.0, 1.0)
    question = asked(axis="turn_gap", values=gaps, start=2, base=Point(streams=20), claim=claim)
    report = build_report(searched_evidence((question, question), lambda gap: 0.004 if gap >= 4 else 0.6))
    assert len(report.searches) == 2
    for outcome in report.searches:
        assert outcome.comparable
        assert outcome.says == (
            f"{claim.id} is reproduced for mean turn gaps of 4 s and more (certified at 95 %), "
            "and not for a mean turn gap of 2 s, the next one"
        )
    assert {point.streams for point in report.points} == {None}
    assert {point.label for point in report.points} == {"20 streams, turn gap 4 s", "20 streams, turn gap 2 s"}


def test_a_claim_about_something_else_only_holds() -> None:
    claim = Claim.model_validate(make_claim(point={"streams": 20}, value_s=0.95, hardware="B200"))
    question = asked(axis="turn_gap", values=(4.0, 2.0), start=0, base=Point(streams=20), claim=claim)
    (outcome,) = build_report(searched_evidence((question,), lambda _: 0.004)).searches
    assert outcome.comparable is False
    assert "made on B200" in outcome.reasons[0]
    assert outcome.says.startswith("p95 of E2E at most ")


def test_each_rule_is_judged_once_and_not_once_more_for_every_point(
    evidence: Evidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ladder of a thousand points would take the cube of that: hours, for whoever verifies such a report."""
    judged: list[str] = []

    def counting(rule: str) -> None:
        judge = getattr(rules_client, rule)

        def counted(measurement: Measurement) -> Any:
            judged.append(rule)
            return judge(measurement)

        monkeypatch.setattr(rules_client, rule, counted)

    for rule in ("event_loop", "sent_on_time", "stamped_on_time", "cpu_to_spare"):
        counting(rule)
    assert len(evidence.recipe.load.ladder) > 5
    build_report(evidence)
    assert max(judged.count(rule) for rule in set(judged)) <= 2
