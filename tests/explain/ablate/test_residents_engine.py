"""Two real engines on this host's CPU that stay beside each other, measured in turns, as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.report import folder_files as files

pytestmark = [pytest.mark.engine, pytest.mark.thorough, pytest.mark.alone]
ROOT = Path(__file__).parents[3]
SETTINGS = {"load.ladder": "[{streams = 2}]", "load.ramp_s": "2", "load.steady_s": "10"}


def test_real_engines_stay_and_their_reports_are_valid(tmp_path: Path) -> None:
    # Half the step is a flag that the engine really has, and two engines fit into the memory of a small host.
    options = (
        *("--resident", "--only", "removed", "--blocks", "2", "--json", "--reports", str(tmp_path / "reports")),
        *("--from-set", "engine.flags.max_num_batched_tokens=2048"),
        *(word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")),
    )
    ablate = subprocess.run(
        [sys.executable, "-m", "bench", "ablate", "cpu", "--from", "cpu", *options],
        cwd=ROOT,
        env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert ablate.returncode in {0, 4}, ablate.stderr  # 4: other work on this machine disturbed a run
    (made,) = (tmp_path / "reports/ablation").iterdir()
    assert len(list((made / "engines").glob("*/*/engine-0.log"))) == 2
    reports = sorted(made.glob("runs/*/*/*"))
    assert len(reports) >= 4
    for report in reports:
        told = json.loads((report / files.REPORT).read_bytes())
        broken = [check["rule"] for check in told["checks"] if check["verdict"] == "broken"]
        # What depends on the quiet of this machine may break; that the engine was there before may break nothing.
        assert not {"prefix hits are as predicted", "client totals equal the engine's"} & set(broken), broken
        assert "nothing was compiled or captured in the window" not in broken
        lines = (report / files.OBSERVATIONS).read_text().splitlines()
        (started,) = (seen for seen in map(json.loads, lines) if seen["kind"] == "engine_started")
        assert started["resident"]["beside"] == 1
        assert (report / files.engine_log(0)).stat().st_size
    if ablate.returncode == 0:
        summary = json.loads((made / "ablation.json").read_bytes())
        assert len({run["start"] for run in summary["runs"]}) == 2
