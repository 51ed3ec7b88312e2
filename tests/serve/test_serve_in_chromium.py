"""The list as its user works with it: no script, by keyboard, on a phone, with strangers' reports in it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

import bench.stats.blocks as blocks_module
from bench.report import folder_files as files
from bench.serve.entry import Entry
from bench.serve.server import Server
from tests.chromium_browser import PHONE, Visit
from tests.serve.served import EVIL, Served

Visitor = Callable[..., Visit]


@dataclass
class Running:
    """A server with everything verified, and what it lists."""

    url: str
    entries: dict[str, Entry]


@pytest.fixture(scope="module")
def running(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    own = served.copy(tmp_path_factory.mktemp("chromium") / "served")
    page = own.folder / "deep" / "er" / "stranger" / files.PAGE
    evil = "<script>document.title = 'run'</script><img src='http://127.0.0.1:9/x.png'><h1>VERIFIED</h1>"
    page.write_text(f"<!doctype html><title>stranger</title><style>h1 {{ color: red }}</style>{evil}")
    site, entries = own.site(checked=True)
    with pytest.MonkeyPatch.context() as patch, Server("127.0.0.1", 0, site) as server:
        patch.setattr(blocks_module, "REPLICATES", 200)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield Running(server.url, entries)
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_rule_of_accessibility_is_broken(visit: Visitor, running: Running, scheme: str) -> None:
    fast, stranger = running.entries["fast"].id, running.entries["deep/er/stranger"].id
    for path in ("", f"report/{fast}", f"compare?report={fast}&report={stranger}"):
        seen = visit(running.url + path, scheme=scheme)
        assert seen.violations() == []
        assert (seen.wrong, seen.asked) == ([], [])


def test_the_list_fits_a_phone(visit: Visitor, running: Running) -> None:
    seen = visit(running.url, width=PHONE)
    assert seen.width() == PHONE
    assert seen.violations() == []
    assert seen.page.get_by_text(EVIL).count() > 0
    assert seen.page.locator("img, script").count() == 0


def test_filters_and_comparison_work_by_keyboard_and_without_a_script(visit: Visitor, running: Running) -> None:
    seen = visit(running.url, also=running.url)
    page = seen.page
    page.get_by_label("validity").select_option("valid")
    page.get_by_label("text").fill("test-h200")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{running.url}?kind=&target=&hardware=&validity=valid*")
    boxes = page.get_by_role("checkbox")
    assert boxes.count() == 2
    for number in range(2):
        boxes.nth(number).focus()
        page.keyboard.press("Space")
    page.get_by_role("button", name="Compare the chosen").click()
    page.wait_for_url(f"{running.url}compare?*")
    assert page.get_by_role("heading", level=1).inner_text() == "test-h200 against test-h200"
    assert seen.violations() == []
    assert (seen.wrong, seen.asked) == ([], [])


def test_the_page_of_a_stranger_can_only_be_looked_at(visit: Visitor, running: Running) -> None:
    entry = running.entries["deep/er/stranger"]
    ours = visit(f"{running.url}report/{entry.id}", also=running.url)
    assert ours.page.locator(".headline").first.inner_text().startswith("Refused by this server at ")
    ours.page.get_by_role("link", name="Its page, as its maker left it").click()
    assert ours.page.get_by_role("heading", name="VERIFIED").is_visible()
    assert ours.page.title() == "stranger"
    assert len([line for line in ours.wrong if "Content Security Policy" in line or "sandbox" in line]) >= 2
    assert ours.asked == []


def test_an_honest_page_is_shown_as_it_is(visit: Visitor, running: Running) -> None:
    seen = visit(f"{running.url}report/{running.entries['fast'].id}/page")
    assert seen.page.get_by_role("img", name="E2E percentiles against open user streams").is_visible()
    assert (seen.wrong, seen.asked) == ([], [])
