"""What a terminal of 80 columns shows of a search."""

from io import StringIO
from pathlib import Path

from rich.console import Console

from bench.report.build import build_report
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


def test_rules_that_exploration_broke_are_told_and_do_not_shout() -> None:
    text = " ".join(shown(generation_tokens=1.0).split())
    assert "Rules were broken at points that the answer does not rest on" in text
    assert "INVALID" not in text
