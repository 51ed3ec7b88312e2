"""Takes the README's picture: the top of a report's page, down to latency against streams, drawn by this version.

    uv run python -m tests.report.take_picture FOLDER docs/pictures/report.png

Needs Chromium.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

from bench.explain.compare.side import read_side
from bench.report.keys import trusted_keys
from bench.report.render.html import render_page
from bench.report.verify_show import ALLOW_LIST

WIDTH = 1080
FOLD = "Math.ceil(document.querySelector('#latency .pair').getBoundingClientRect().bottom)"


def take(page: str) -> bytes:
    """The top of a page of HTML as PNG."""
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
        opened = browser.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="light")
        opened.set_content(page)
        height = float(opened.evaluate(FOLD)) + 16
        return opened.screenshot(full_page=True, clip={"x": 0, "y": 0, "width": WIDTH, "height": height})


if __name__ == "__main__":
    side = read_side(Path(sys.argv[1]), trusted_keys(allow_list=ALLOW_LIST))
    Path(sys.argv[2]).write_bytes(take(render_page(side.report, side.evidence)))
