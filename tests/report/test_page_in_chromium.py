"""The report page in a real browser: it asks nobody, breaks no rule of accessibility, fits a phone and paper."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ViewportSize

from bench.report.build import build_report
from bench.report.render.html import render_page
from tests.chromium_browser import DESK, PHONE, Visit
from tests.explain.search.evidence import searched_evidence
from tests.explain.search.laws import asked
from tests.report.factories import make_evidence
from tests.report.hostile import hostile_evidence
from tests.report.scene import ENVIRONMENT, scene

A4: ViewportSize = {"width": 794, "height": 1123}
"""CSS pixels of a page of paper, its margins included."""

Visitor = Callable[..., Visit]


@pytest.fixture(scope="module")
def lively(tmp_path_factory: pytest.TempPathFactory) -> str:
    recipe, records, observations = scene()
    evidence = make_evidence(records, observations, recipe=recipe, environment=ENVIRONMENT)
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render_page(build_report(evidence), evidence))
    return path.as_uri()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_rule_of_accessibility_is_broken(visit: Visitor, lively: str, scheme: str) -> None:
    seen = visit(lively, scheme=scheme)
    seen.open_all()
    assert seen.violations() == []
    assert (seen.wrong, seen.asked) == ([], [])


def test_a_search_page_breaks_none_either(visit: Visitor, tmp_path: Path) -> None:
    evidence = searched_evidence((asked(),), lambda streams: 0.004 if streams <= 13 else 0.6)
    path = tmp_path / "report.html"
    path.write_text(render_page(build_report(evidence), evidence))
    seen = visit(path.as_uri(), width=PHONE)
    seen.open_all()
    assert seen.violations() == []
    assert seen.width() == PHONE
    assert (seen.wrong, seen.asked) == ([], [])


def test_it_fits_a_phone_with_everything_open(visit: Visitor, lively: str) -> None:
    seen = visit(lively, width=PHONE)
    assert seen.width() == PHONE
    seen.open_all()
    assert seen.width() == PHONE
    assert seen.violations() == []
    assert (seen.wrong, seen.asked) == ([], [])


def test_dark_is_dark_and_paper_is_white(visit: Visitor, lively: str) -> None:
    page = visit(lively, scheme="dark").page
    background = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(background) == "rgb(19, 23, 26)"
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate(background) == "rgb(255, 255, 255)"


def test_the_verdict_and_all_tiles_are_on_the_first_sheet(visit: Visitor, lively: str) -> None:
    seen = visit(lively)
    page = seen.page
    page.emulate_media(media="print")
    page.set_viewport_size(A4)
    for what in (".headline", ".tiles"):
        box = page.locator(what).bounding_box()
        assert box is not None
        # The margins of the sheet are not in the page's own layout.
        assert box["y"] + box["height"] < A4["height"] - 120
    pdf = page.pdf(format="A4")
    assert pdf.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) > 3


def test_what_folds_is_printed_open_and_the_recipe_is_not_printed(visit: Visitor, lively: str) -> None:
    page = visit(lively).page
    table = page.get_by_text("What was measured, and what was expected.")
    recipe = page.get_by_text("The resolved recipe")
    assert (table.is_visible(), recipe.is_visible()) == (False, True)
    page.emulate_media(media="print")
    assert (table.is_visible(), recipe.is_visible()) == (True, False)


def test_a_screen_reader_is_told_what_every_figure_shows(visit: Visitor, lively: str) -> None:
    page = visit(lively).page
    figures = page.get_by_role("img")
    assert figures.count() > 20
    (latency,) = page.get_by_role("img", name="E2E percentiles against open user streams").all()
    # As the browser hands it to assistive technology, not as it is written.
    session = page.context.new_cdp_session(page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    told = {node["name"]["value"]: node.get("description", {}).get("value", "") for node in nodes if "name" in node}
    assert re.match(r"p95: \d+ ms at 20, ", told[latency.get_attribute("aria-label") or ""])


def test_everything_that_folds_opens_by_keyboard(visit: Visitor, lively: str) -> None:
    page = visit(lively).page
    fold = page.locator("details.data").first
    fold.locator("summary").focus()
    page.keyboard.press("Enter")
    assert fold.get_attribute("open") is not None
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "scroll"


def test_hostile_names_do_not_become_markup(visit: Visitor, tmp_path: Path) -> None:
    evidence = hostile_evidence()
    path = tmp_path / "report.html"
    path.write_text(render_page(build_report(evidence), evidence))
    for width in (PHONE, DESK):
        seen = visit(path.as_uri(), width=width)
        seen.open_all()
        assert (seen.wrong, seen.asked) == ([], [])
        assert seen.page.locator("script, img, iframe, form").count() == 0
        assert seen.width() == width
    assert seen.violations() == []


def test_the_browser_itself_would_stop_a_script_and_a_request(visit: Visitor, lively: str, tmp_path: Path) -> None:
    """The watching works, and the page's own policy is one: the same page with both in it."""
    path = tmp_path / "bent.html"
    text = Path(lively.removeprefix("file://")).read_text()
    evil = "<script>document.title = 'run'</script><img src='http://127.0.0.1:9/x.png'><style>h1{color:red}</style>"
    path.write_text(text.replace("<main>", f"<main>{evil}"))
    seen = visit(path.as_uri())
    assert seen.page.title() != "run"
    assert len([line for line in seen.wrong if "Content Security Policy" in line]) == 3
    assert seen.asked == []


def test_the_browser_is_one_that_draws(chromium: Browser) -> None:
    assert int(chromium.version.split(".")[0]) >= 131  # older ones open no fold in print
