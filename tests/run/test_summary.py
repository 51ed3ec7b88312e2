import io
from pathlib import Path

from rich.console import Console

from bench.report.build import build_report
from bench.report.model import Check, Report
from bench.summary import summary
from tests.report.factories import healthy


def printed(report: Report) -> str:
    console = Console(width=80, file=io.StringIO(), record=True)
    console.print(summary(report, Path("reports/x")))
    return console.export_text()


def test_it_names_the_points_their_figures_and_where_the_report_is() -> None:
    report = build_report(healthy())
    text = printed(report)
    assert report.title.split()[0] in text
    point = report.points[0]
    assert f"{point.e2e.p95.value:.3f}" in text
    assert str(point.requests) in text
    assert "just verify reports/x" in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_a_broken_rule_is_one_line_with_all_its_places() -> None:
    report = build_report(healthy())
    check = Check(rule="the rule", point=0, verdict="broken", measured="7", expected="0", advice="Do this.")
    broken = report.model_copy(update={"checks": (check, check), "valid": False})
    text = " ".join(printed(broken).split())
    assert "INVALID" in text
    label = report.points[0].label
    assert f"broken the rule ({label}, {label}): 7, expected 0. Do this." in text


def test_a_partial_report_says_why() -> None:
    report = build_report(healthy()).model_copy(update={"partial": True, "partial_reason": "the disk is full"})
    assert "PARTIAL: the disk is full" in printed(report)


def test_a_point_that_was_cut_off_is_marked_and_no_figure_is_truncated() -> None:
    report = build_report(healthy())
    point = report.points[0].model_copy(update={"complete": False, "streams": None, "concurrent": 16})
    text = printed(report.model_copy(update={"points": (point,)}))
    assert "16 in flight*" in text
    assert "* cut off" in text
    assert f"{point.e2e.p95.value:.3f}" in text
    assert "\u2026" not in text
