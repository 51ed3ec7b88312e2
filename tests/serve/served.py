"""A folder of reports as a user may have it: two that compare, one of somebody unknown, some that are none."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from bench.explain.ablate.outcome import Ablation
from bench.report import folder_files as files
from bench.report.apart import Apart
from bench.serve.catalogue import Catalogue
from bench.serve.checker import Checker
from bench.serve.entry import Seen, read_entry
from bench.serve.hostile import stamp_of
from bench.serve.site import Site
from tests.explain.compare.sides import recipe_of, report
from tests.report.factories import make_claim
from tests.report.greedy import JUST_WITHIN, long_prompts

if TYPE_CHECKING:
    from bench.report.keys import TrustedKey
    from bench.serve.entry import Entry
    from tests.report.folders import Signed

APART = Apart("bench.serve.site", "pytest")
"""One for all tests: its processes are forked from the first one's."""
ENOUGH_S = 120.0
EVIL = "<img src=x onerror=alert(1)>"
ENVIRONMENT = {"gpus": [{"index": 0, "name": "NVIDIA H200", "power_limit_w": 700}]}


@dataclass(frozen=True)
class Served:
    """A folder and who is trusted.

    Attributes:
        folder: to serve.
        trusted: keys of the reports "fast" and "slow"; nobody trusts "stranger".
    """

    folder: Path
    trusted: dict[str, TrustedKey]

    def copy(self, to: Path) -> Served:
        def pipes(inside: str, names: list[str]) -> list[str]:
            return [files.REPORT] if Path(inside).name == "pipe" and files.REPORT in names else []

        shutil.copytree(self.folder, to, symlinks=True, ignore=pipes)
        os.mkfifo(to / "broken" / "pipe" / files.REPORT)
        return Served(to, dict(self.trusted))

    def add_slow(self) -> Signed:
        """Adds a report of somebody trusted that takes more than a minute to verify, in the folder "hostile"."""
        slow = report(self.folder / "hostile", seed=9, runs=1, recipe=recipe_of(runs=1))
        long_prompts(slow.path, JUST_WITHIN)
        slow.sign_again()
        self.trusted.update(slow.trusted)
        return slow

    @cached_property
    def catalogue(self) -> Catalogue:
        """The same one for all tests of a folder: what did not change is read once."""
        return Catalogue(self.folder, APART, patience_s=ENOUGH_S)

    def entry(self, place: str) -> Entry:
        """What is read of one place, here and not in a process of its own."""
        path = self.folder / place
        return read_entry(Seen(path, place, stamp_of(path), inside_ablation=False))

    def site(self, *, checked: bool = False) -> tuple[Site, dict[str, Entry]]:
        """The site, and what it lists, by place; `checked`: everything is verified already."""
        catalogue, checker = self.catalogue, Checker(self.trusted, APART)
        entries = {entry.place: entry for entry in catalogue.entries()}
        if checked:
            for entry in entries.values():
                checker.check(entry)
        return Site("reports", catalogue, checker, APART), entries


def make_served(base: Path) -> Served:
    """fast, slow and stranger are signed reports; the others cannot be read, each for a reason of its own."""
    folder = base / "served"
    claims = [make_claim(), make_claim(id="forty", point={"streams": 40}, value_s=0.2)]
    fast = report(base / "a", seed=1, runs=1, recipe=recipe_of(runs=1, claims=claims), environment=ENVIRONMENT)
    slow = report(base / "b", seed=2, runs=1, factor=1.5, recipe=recipe_of(runs=1, title="Slower"))
    stranger = report(base / "c", seed=3, runs=1, finished=False, recipe=recipe_of(runs=1, title=f"Strange {EVIL}"))
    for name, made in (("fast", fast), ("slow", slow), ("deep/er/stranger", stranger)):
        shutil.copytree(made.path, folder / name)
    for name, content in (
        ("no-json", b"["),
        ("not-a-number", b'{"schema_version": NaN}'),
        ("future", b'{"schema_version": "9.0"}'),
        ("empty", b'{"schema_version": "1.0"}'),
        (EVIL, b'{"schema_version": "' + EVIL.encode() + b'"}'),
    ):
        (folder / "broken" / name).mkdir(parents=True)
        (folder / "broken" / name / files.REPORT).write_bytes(content)
    (folder / "broken" / "link").mkdir()
    (folder / "broken" / "link" / files.REPORT).symlink_to(folder / "fast" / files.REPORT)
    (folder / "broken" / "pipe").mkdir()
    os.mkfifo(folder / "broken" / "pipe" / files.REPORT)
    (folder / "around").symlink_to(folder)  # a walk that follows it never ends
    (folder / ".hidden").mkdir()
    shutil.copy(folder / "fast" / files.REPORT, folder / ".hidden")
    return Served(folder, fast.trusted | slow.trusted)


def add_ablation(folder: Path, run: Path) -> None:
    """An ablation that nobody signed, with a run in it."""
    ablation = Ablation(
        target="h200-fp8",
        base="vanilla",
        title="FP8 on one H200",
        not_real=("dummy weights",),
        factors=(("mtp", "MTP", ("engine.flags.speculative_config",)),),
        only=None,
        adapted=(),
        blocks=0,
        left_out=(),
        complete=False,
        runs=(),
        figures=(),
    )
    folder.mkdir(parents=True)
    (folder / "ablation.json").write_text(json.dumps(ablation.model_dump(mode="json")))
    (folder / "ablation.html").write_text("<!doctype html><title>Ablation</title><p>An ablation.</p>")
    shutil.copytree(run, folder / "runs" / "001-block0-base" / "cpu" / "20261130T110000Z-abc")
