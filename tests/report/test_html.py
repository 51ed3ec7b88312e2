import base64
import hashlib
import itertools
import re
from collections import Counter
from html.parser import HTMLParser
from typing import Any

import pytest

from bench.observe.observations import Interrupted
from bench.records import Outcome
from bench.report.build import build_report
from bench.report.evidence import Evidence
from bench.report.model import Report
from bench.report.render import view, words
from bench.report.render.html import STYLE, policy, render_page
from tests.report.factories import (
    healthy,
    healthy_observations,
    make_claim,
    make_evidence,
    make_failure,
    make_recipe,
    make_started,
)
from tests.report.folders import recipe_with_claims
from tests.report.hostile import HOSTILE, hostile_evidence
from tests.report.scene import ENVIRONMENT, scene

VOID = {"meta", "link", "br", "img"}


class Page(HTMLParser):
    """Reads a page and refuses tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.text.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def drawn(evidence: Evidence) -> tuple[Report, str]:
    report = build_report(evidence)
    return report, render_page(report, evidence)


def lively_page(*, runs: int) -> tuple[Report, str]:
    recipe, records, observations = scene(runs=runs)
    return drawn(make_evidence(records, observations, recipe=recipe, environment=ENVIRONMENT))


@pytest.fixture(scope="module")
def lively() -> tuple[Report, str]:
    return lively_page(runs=3)


def test_the_page_asks_nothing_of_anybody_and_runs_nothing(lively: tuple[Report, str]) -> None:
    page = Page(lively[1])
    names = Counter(name for name, _ in page.tags)
    assert not names.keys() & {"script", "iframe", "object", "embed", "img", "form", "base", "foreignobject", "use"}
    assert page.all("link") == [{"rel": "icon", "href": "data:,"}]
    for _, attributes in page.tags:
        assert not any(name.startswith("on") or name in {"style", "src", "srcset", "xlink:href"} for name in attributes)
        assert (attributes.get("href") or "#").startswith(("#", "data:,"))
    assert not re.search(r"url\(|@import|//[a-z]", STYLE)


def test_the_policy_allows_exactly_the_style_sheet_of_the_page(lively: tuple[Report, str]) -> None:
    (csp,) = [meta["content"] for meta in Page(lively[1]).all("meta") if meta.get("http-equiv")]
    style = re.search(r"<style>(.*?)</style>", lively[1], re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert csp == policy(STYLE)
    assert f"style-src 'sha256-{digest}'" in (csp or "")
    assert "default-src 'none'" in (csp or "")


def test_headline_verdicts_and_what_was_not_real_come_before_everything_else() -> None:
    recipe = make_recipe(checkpoint={"kind": "dummy", "real": False}, claims=[make_claim()])
    report, text = drawn(healthy(recipe=recipe))
    assert report.not_real
    assert report.title in re.findall(r"<title>(.*?)</title>", text)[0]
    places = [text.index(f"Not real here: {report.not_real[0]}"), text.index('id="claims"'), text.index('id="latency"')]
    assert places == sorted(places)
    assert text.index(report.claims[0].verdict) < text.index('id="latency"')


def test_every_section_of_the_contents_is_there(lively: tuple[Report, str]) -> None:
    page = Page(lively[1])
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [(attributes["href"] or "")[1:] for attributes in page.all("a")]
    assert [section["id"] for section in page.all("section")] == links
    assert {section["aria-labelledby"] for section in page.all("section")} <= set(ids)


def test_the_page_says_what_it_shows_to_those_who_cannot_see_it(lively: tuple[Report, str]) -> None:
    page = Page(lively[1])
    assert page.all("html") == [{"lang": "en"}]
    charts = [svg for svg in page.all("svg") if "chart" in (svg.get("class") or "")]
    assert len(charts) > 20
    assert all(svg["role"] == "img" and svg["aria-label"] for svg in charts)
    assert len(page.all("caption")) == len(page.all("table"))
    assert all(cell.get("scope") in {"col", "row", "rowgroup"} for cell in page.all("th"))
    assert all(
        (div.get("role"), div.get("tabindex")) == ("group", "0") and div["aria-label"]
        for div in page.all("div")
        if div.get("class") == "scroll"
    )
    levels = [int(name[1]) for name, _ in page.tags if re.fullmatch("h[1-6]", name)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_every_figure_of_every_point_is_in_a_table(lively: tuple[Report, str]) -> None:
    report, text = lively
    cells = set(Page(text).text)
    for point in report.points:
        for estimate in (point.e2e.p50, point.e2e.p90, point.e2e.p95, point.e2e.p99, point.ttft.p50, point.tpot.p95):
            assert {words.estimate(estimate), words.interval(estimate)} <= cells
        assert {words.seconds(point.e2e.mean), words.number(point.requests_per_s)} <= cells
        assert {
            words.percent(point.prefix_cache.predicted_rate),
            words.percent(point.prefix_cache.measured_rate),
        } <= cells
        assert point.speculation is not None
        assert words.number(point.speculation.acceptance_length) in cells
    for claim in report.claims:
        assert {claim.asks, claim.verdict, claim.quote, claim.id} <= cells
    for check in report.checks:
        assert {check.rule, check.measured} <= cells
    for assumption in report.assumptions:
        assert {assumption.key, assumption.value, assumption.why} <= cells
    for term, meaning in report.definitions.items():
        assert {term, meaning} <= cells
    assert {"gpus.0.driver", "580.159", "host.kernel", "packages_sha256"} <= cells
    assert report.fingerprint in cells


def test_runs_are_shown_one_by_one_and_how_much_they_differ(lively: tuple[Report, str]) -> None:
    report, text = lively
    between = report.points[0].between_runs
    assert between is not None
    assert f'>standard deviation between runs</td><td class="n">{words.percent(between.coefficient)}<' in text


def test_a_page_of_60_streams_is_small(lively: tuple[Report, str]) -> None:
    """A full ladder: 20, 40 and 60 streams and 16 in flight, three engine starts, some 20,000 requests."""
    report, text = lively
    assert sum(point.requests for point in report.points) > 18_000
    assert len(text.encode()) < 2_000_000


def test_the_same_report_gives_the_same_bytes() -> None:
    evidence = healthy(recipe=recipe_with_claims())
    assert drawn(evidence) == drawn(evidence)


def test_hostile_words_stay_words() -> None:
    evidence = hostile_evidence()
    report, text = drawn(evidence)
    page = Page(text)
    names = {name for name, _ in page.tags}
    assert not names & {"script", "img"}
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert "{{7*7}}" in text
    assert report.title.startswith(HOSTILE)
    assert sum("</title><script>alert(1)</script>" in shown for shown in page.text) >= 6


def test_a_hostile_report_by_itself_is_escaped_everywhere() -> None:
    """Every string of the report replaced: whatever the template shows, it shows as text."""

    def evil(value: Any) -> Any:
        if isinstance(value, str):
            return HOSTILE
        if isinstance(value, dict):
            return {key: evil(inner) for key, inner in value.items()}
        return [evil(inner) for inner in value] if isinstance(value, list) else value

    evidence = healthy(recipe=recipe_with_claims())
    honest = build_report(evidence).model_dump(mode="json")
    keep = {"schema_version", "engine_kind"}
    bent = {key: value if key in keep else evil(value) for key, value in honest.items()}
    for claim, original in zip(bent["claims"], honest["claims"], strict=True):
        claim |= {"verdict": original["verdict"], "certificate": original["certificate"]}
    for check, original in zip(bent["checks"], honest["checks"], strict=True):
        check["verdict"] = original["verdict"]
    for assumption in bent["assumptions"]:
        assumption["kind"] = "scaled"
    for point, original in zip(bent["points"], honest["points"], strict=True):
        point["certificates"] = original["certificates"]
    page = Page(render_page(Report.model_validate(bent), evidence))
    assert not {name for name, _ in page.tags} & {"script", "img"}
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)


def test_a_partial_report_without_a_single_request_has_a_page() -> None:
    evidence = make_evidence([], [Interrupted(t=1.0, run=0, cause="engine", detail="it died")])
    report, text = drawn(evidence)
    assert report.partial
    for said in (
        "Partial report",
        "it died",
        "No operating point was measured.",
        "No engine became ready.",
        "No request was sent.",
    ):
        assert said in text


def test_a_point_where_everything_failed_has_a_page() -> None:
    records = [make_failure(Outcome.TIMEOUT, request=number, intended_s=20.0 + number / 10) for number in range(200)]
    evidence = make_evidence(records, [make_started(), *healthy_observations(records)])
    report, text = drawn(evidence)
    assert report.points[0].e2e.p95.among_failures
    assert "timeout" in text
    assert "p95 at 20 streams (failed)" in text


def test_rules_that_were_the_same_at_every_point_take_one_row(lively: tuple[Report, str]) -> None:
    assert "20 streams, 40 streams, 60 streams, 16 concurrent requests" in lively[1]


def test_what_is_left_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "PANELS_DRAWN", 1)
    monkeypatch.setattr(view, "ENVIRONMENT_ROWS", 2)
    evidence = make_evidence([], [], environment={"a": 1, "b": 2, "c": 3, "d": 4})
    assert "2 further rows in environment.json." in drawn(evidence)[1]
    _, text = drawn(healthy(points=2))
    assert "1 further timeline not drawn." in text


def test_values_of_the_environment_are_words() -> None:
    packages = {f"package-{number}": f"{number}.0" for number in range(40)}
    evidence = make_evidence(
        [],
        [],
        environment={"a": [{"x": 1}], "b": True, "c": None, "d": "v" * 11_000, "e": {}, "f": ["p", 2]}
        | {"packages": packages},
    )
    cells = Page(drawn(evidence)[1]).text
    assert {"a.0.x", "yes", "unknown", "v" * view.VALUE_LETTERS + " ...", "p, 2"} <= set(cells)
    assert "40 entries" in cells
    assert ", ".join(f"{name} {version}" for name, version in packages.items()) in cells
