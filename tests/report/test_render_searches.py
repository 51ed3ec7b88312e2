"""A search in the page: what is certified is told in words, and its points have a table."""

from bench.report.build import build_report
from bench.report.render.searches import search_views
from bench.report.render.tables import cell
from tests.explain.search.evidence import searched_evidence
from tests.explain.search.laws import asked


def test_what_is_certified_is_named_in_the_figure_and_every_setting_is_in_the_table() -> None:
    report = build_report(searched_evidence((asked(),), lambda streams: 0.004 if streams <= 13 else 0.6))
    (view,) = search_views(report)
    figure = str(view.figure)
    assert ">holds</text>" in figure
    assert ">does not hold</text>" in figure
    assert "certified: it does not hold</title>" in figure
    (outcome,) = report.searches
    assert [cell(row[0]).text for row in view.table.rows] == [each.setting for each in outcome.measured]
    assert view.table.heads[-1] == "p95 E2E"
    at_13 = next(row for row in view.table.rows if cell(row[0]).text == "13 streams")
    assert cell(at_13[-1]).text.endswith(" ms")
    assert " to " in cell(at_13[-1]).between
