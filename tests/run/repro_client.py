"""`python -m bench repro cpu ...` in a process of its own, and what it leaves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from bench.report import folder_files as files

ROOT = Path(__file__).parents[2]


class ReproClient:
    """Started at once. `options` come after the settings; `environment` is added to the tests' own."""

    PATIENCE_S: ClassVar = 120.0
    """A run that has not ended by then hangs."""

    def __init__(
        self, tmp_path: Path, settings: Mapping[str, str], *options: str, environment: Mapping[str, str] | None = None
    ) -> None:
        self.reports = tmp_path / "reports"
        wide = {"COLUMNS": "400"}  # no path is broken
        self.environment = {**os.environ, **wide, "XDG_CONFIG_HOME": str(tmp_path / "config"), **(environment or {})}
        sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        command = [sys.executable, "-m", "bench", "repro", "cpu", "--reports", str(self.reports), "--json"]
        self.process = subprocess.Popen(
            [*command, *sets, *options],
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self) -> tuple[int, str]:
        """Exit code and standard error."""
        _, err = self.process.communicate(timeout=self.PATIENCE_S)
        return self.process.returncode, err

    def until_recorded(self, count: int) -> Path:
        """The folder of the report, once so many requests have been recorded."""
        wait = threading.Event()
        for _ in range(2400):
            for journal in self.reports.glob(f"cpu/*/{files.RUNNING_RECORDS}"):
                if journal.read_bytes().count(b"\n") >= count:
                    return journal.parent
            assert self.process.poll() is None, self.process.communicate()
            wait.wait(0.05)
        raise AssertionError("no requests were recorded")

    @property
    def folder(self) -> Path:
        (folder,) = (self.reports / "cpu").iterdir()
        return folder

    @property
    def report(self) -> dict[str, Any]:
        report: dict[str, Any] = json.loads((self.folder / files.REPORT).read_bytes())
        return report
