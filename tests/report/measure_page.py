"""How large the page of a full ladder is, and how long it takes to draw it: by us, and by Chromium.

    uv run python -m tests.report.measure_page

20, 40 and 60 streams and 16 requests in flight, three engine starts, windows of 150 s: some 30,000 requests. Times are
of this machine, the best of five; no test asserts them.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Final

from playwright.sync_api import sync_playwright

from bench.report.build import build_report
from bench.report.render.html import render_page
from tests.report import factories, scene
from tests.report.factories import make_evidence

REPEATS: Final = 5
DRAIN, DONE = 160.0, 170.0
PAINTED: Final = """() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(
    () => done(performance.now()))))"""
"""Milliseconds from the begin of the navigation until the second frame after everything was there."""


def main() -> None:
    """Measures and prints."""
    for module in (factories, scene):
        vars(module).update(DRAIN=DRAIN, DONE=DONE)
    recipe, records, observations = scene.scene(runs=3)
    evidence = make_evidence(records, observations, recipe=recipe, environment=scene.ENVIRONMENT)
    report = build_report(evidence)
    took, page = [], ""
    for _ in range(REPEATS):
        begun = time.perf_counter()
        page = render_page(report, evidence)
        took.append(time.perf_counter() - begun)
    print(f"{len(records):,} requests, {len(page.encode()) / 1e6:.2f} MB")  # noqa: T201  what it is for
    print(f"made in {min(took):.2f} s")  # noqa: T201
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder) / "report.html"
        path.write_text(page)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
        for width in (1280, 390):
            drawn = []
            for _ in range(REPEATS):
                opened = browser.new_page(viewport={"width": width, "height": 900})
                opened.goto(path.as_uri())
                drawn.append(float(opened.evaluate(PAINTED)) / 1000)
                opened.close()
            print(f"drawn by Chromium {browser.version}, {width} pixels wide, in {min(drawn):.2f} s")  # noqa: T201


if __name__ == "__main__":
    main()
