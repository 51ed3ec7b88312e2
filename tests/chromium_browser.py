"""A real browser for tests: Debian's Chromium, driven over its own protocol, with no network behind it.

Without it the tests skip and say why; in CI (`CI=true`) that is a failure. In CI, as root and with apt-get, it and a
font are installed first.

- `chromium`: the browser, started once for the tests of a file: its driver runs an event loop, which no other test may
  find running.
- `visit`: opens an address in a page of its own and watches what it does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]  # has no types
from playwright.sync_api import Browser, BrowserContext, Page, Request, Route, sync_playwright

from tests.debian_packages import NotInstalledError, find_program

PHONE, DESK = 390, 1280
"""Widths in CSS pixels."""


@dataclass
class Visit:
    """A page that is open, and what it did.

    Attributes:
        page: to look at.
        wrong: what it said on its console, threw, or violated of its own policy.
        asked: addresses that it asked for and was not meant to.
    """

    page: Page
    wrong: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def open_all(self) -> None:
        """Opens everything that folds."""
        self.page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")

    def violations(self) -> list[str]:
        """Rules of accessibility that it breaks, each with the first element that does."""
        found: list[dict[str, Any]] = Axe().run(self.page).response["violations"]
        return [f"{each['id']}: {each['help']}: {each['nodes'][0]['html'][:200]}" for each in found]

    def width(self) -> int:
        """Of what can be scrolled to, in CSS pixels."""
        width: int = self.page.evaluate("document.documentElement.scrollWidth")
        return width


def _unavailable(reason: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(f"in CI there must be a Chromium: {reason}")
    pytest.skip(reason)


def _program() -> str:
    """Its path; installed first in CI."""
    try:
        found = find_program("chromium", ("chromium", "fonts-dejavu-core"))
    except NotInstalledError as error:
        _unavailable(str(error))
    return found or _unavailable("chromium is not installed (Debian: apt-get install chromium)")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    program = _program()
    arguments = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium: Browser) -> Iterator[Callable[..., Visit]]:
    """`visit(url, width=..., scheme=..., also=...)`: whatever else it asks for fails; `also` begins what it may."""
    opened: list[BrowserContext] = []

    def go(url: str, *, width: int = DESK, scheme: Literal["light", "dark"] = "light", also: str = "") -> Visit:
        context = chromium.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
        opened.append(context)
        seen = Visit(context.new_page())

        def watch(route: Route, request: Request) -> None:
            if request.url == url or (also and request.url.startswith(also)):
                route.continue_()
                return
            seen.asked.append(request.url)
            route.abort()

        context.route("**/*", watch)
        seen.page.on("console", lambda message: seen.wrong.append(f"{message.type}: {message.text}"))
        seen.page.on("pageerror", lambda error: seen.wrong.append(str(error)))
        seen.page.goto(url)
        return seen

    yield go
    for context in opened:
        context.close()
