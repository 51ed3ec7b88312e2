"""What a terminal of 80 columns shows of a search."""

from io import StringIO
from pathlib import Path

from rich.console import Console

from bench.explain.slo.parse import parse_slo
from bench.report.build import build_report
from bench.report.render.verdict import headline
from bench.summary import summary
from tests.explain.search.evidence import searched_evidence
from tests.explain.search.laws import asked


def shown(**bend: float) -> str:
    evidence = searched_evidence(
        (asked(),), lambda streams: 0.004 if streams <= 13 else 0.6, bend={2: dict(bend)} if bend else None
    )
    console = Console(width=80, record=True, file=StringIO())
    console.print(summary(build_report(evidence), Path("reports/r")))
    return console.export_text()


def test_the_answer_and_what_it_rests_on() -> None:
    text = shown()
    assert "13 streams" in text
    assert "p95 E2E" in text
    assert "boundary  p95 of E2E at most 1 s holds at 13 streams (certified at 95 %)" in text
    assert "cliff from 13 streams to 14 streams" in text
    assert "INVALID" not in text
    assert "Rules were broken" not in text


def test_of_several_limits_each_answer_says_which() -> None:
    harder = asked(slo=parse_slo("e2e:p95:500ms"), most_points=1)
    report = build_report(searched_evidence((asked(), harder), lambda streams: 0.004 if streams <= 13 else 0.6))
    told = headline(report)
    assert told.says == "1 of 2 limits hold somewhere in the range that was asked about."
    holds, undecided = told.details
    assert "at most 1 s holds at 13 streams" in holds
    assert "at most 500 ms: no setting could be certified to hold" in undecided
    console = Console(width=200, record=True, file=StringIO())
    console.print(summary(report, Path("reports/r")))
    assert "p95 of E2E at most 500 ms: no setting could be certified to hold" in console.export_text()


def test_rules_that_exploration_broke_are_told_and_do_not_shout() -> None:
    text = " ".join(shown(generation_tokens=1.0).split())
    assert "Rules were broken at points that the answer does not rest on" in text
    assert "INVALID" not in text
