"""A folder of reports as a user may have it: two that compare, one of somebody unknown, some that are none."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.explain.ablate.outcome import Ablation
from bench.report import folder_files as files
from bench.serve.catalogue import Catalogue
from bench.serve.checker import Checker
from bench.serve.site import Site
from tests.explain.compare.sides import recipe_of, report
from tests.report.factories import make_claim

if TYPE_CHECKING:
    from bench.report.keys import TrustedKey
    from bench.serve.entry import Entry

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

    def catalogue(self) -> Catalogue:
        return Catalogue(self.folder)

    def entry(self, place: str) -> Entry:
        return next(entry for entry in self.catalogue().entries() if entry.place == place)

    def site(self, *, checked: bool = False) -> tuple[Site, dict[str, Entry]]:
        """The site, and what it lists, by place; `checked`: everything is verified already."""
        catalogue, checker = self.catalogue(), Checker(self.trusted)
        entries = {entry.place: entry for entry in catalogue.entries()}
        if checked:
            for entry in entries.values():
                checker.check(entry)
        return Site("reports", catalogue, checker), entries


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
