import re
import xml.etree.ElementTree as ET

from bench.release.picture import Drawn, draw
from bench.release.published import read_reports
from bench.release.series import rows_of
from bench.report.build import build_report
from tests.release.conftest import Reports, here
from tests.report.factories import healthy, make_claim, make_evidence, make_recipe

SVG = "{http://www.w3.org/2000/svg}"


def tree(svg: str) -> ET.Element:
    return ET.fromstring(svg)  # noqa: S314  drawn by the test itself


def drawn(*reports: Drawn) -> str:
    svg = draw(reports)
    assert svg is not None
    return svg


def now(reports: Reports) -> Drawn:
    (published,) = read_reports([here(reports.now)], reports.trusted)
    return Drawn("test-h200", published.report, published.judged)


def test_it_stands_by_itself_and_is_drawn_the_same_twice(reports: Reports) -> None:
    svg = drawn(now(reports))
    assert svg == drawn(now(reports))
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|url\(|<script|@import|href", svg)
    assert "prefers-color-scheme: dark" not in svg
    root = tree(svg)
    assert root.tag == f"{SVG}svg"
    assert root.get("viewBox") == f"0 0 {root.get('width')} {root.get('height')}"


def test_it_shows_p95_its_intervals_the_budget_and_the_limits_of_comparable_claims(reports: Reports) -> None:
    root = tree(drawn(now(reports)))
    titles = [element.text or "" for element in root.iter(f"{SVG}title")]
    report = reports.now.report
    for point, row in zip(report.points, rows_of(report), strict=True):
        assert f"test-h200, {point.label}: {row.text}" in titles
    assert "twenty: at most 630 ms" in titles
    assert "forty: at most 210 ms" in titles
    assert not any("elsewhere" in title for title in titles)
    kinds = [element.get("class") for element in root.iter(f"{SVG}line")]
    assert kinds.count("p95") == len(report.points)
    assert kinds.count("budget") == 1
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert "p95 of E2E against open user streams" in texts
    assert any("A test" in (text or "") for text in texts)


def test_a_limit_where_nothing_was_measured_is_not_drawn(reports: Reports) -> None:
    claims = tuple(make_recipe(claims=[make_claim(), make_claim(id="sixty", point={"streams": 60})]).claims)
    titles = [element.text for element in tree(drawn(Drawn("x", reports.now.report, claims))).iter(f"{SVG}title")]
    assert [title for title in titles if title and "at most" in title] == [f"{claims[0].id}: at most 1.05 s"]


def test_each_report_has_its_colour_and_the_former_one_none(reports: Reports) -> None:
    svg = drawn(
        now(reports),
        Drawn("other-h200", reports.other.report, ()),
        Drawn("test-h200, former", reports.former.report, (), former=True),
    )
    curves = [
        element.get("class") for element in tree(svg).iter(f"{SVG}path") if "curve" in (element.get("class") or "")
    ]
    assert curves == ["curve s0", "curve s1", "curve former"]
    names = [(element.text, element.get("class")) for element in tree(svg).iter(f"{SVG}text")]
    assert ("test-h200, former", "end former") in names


def test_points_of_both_kinds_have_a_plane_each() -> None:
    both = make_recipe(load={"ladder": [{"streams": 20}, {"concurrent": 16}]})
    report = build_report(healthy(recipe=both))
    root = tree(drawn(Drawn("scene", report, ())))
    headings = [element.text for element in root.iter(f"{SVG}text") if element.get("class") == "heading"]
    assert headings == ["p95 of E2E against open user streams", "p95 of E2E against concurrent requests, closed loop"]


def test_names_from_outside_stay_text() -> None:
    report = build_report(healthy(recipe=make_recipe(title='</svg><script>x</script>&"')))
    svg = drawn(Drawn("<b>", report, ()))
    assert "<script" not in svg
    assert "<b>" in [element.text for element in tree(svg).iter(f"{SVG}text")]


def test_without_a_p95_there_is_no_picture() -> None:
    assert draw([Drawn("empty", build_report(make_evidence([], [])), ())]) is None
