"""A tool of a few lines, as the runner sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.peers.load import Load
from bench.peers.results import load_json
from bench.peers.tool import Counted, Job

STANDIN = Path(__file__).with_name("standin_tool.py")


@dataclass(frozen=True, slots=True)
class Standin:
    how: str = "well"
    name: str = "stand-in"
    environment: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    note: str = ""

    def cannot(self, load: Load) -> str | None:
        return None if load.streams is None else "it knows no streams"

    def command(self, job: Job) -> list[str]:
        return [str(job.python), str(STANDIN), self.how, job.base_url, str(job.folder / "result.json")]

    def read(self, job: Job) -> Counted:
        low, high = load_json(job.folder / "result.json")
        return Counted(succeeded=2, failed=0, e2e_ms=(low, high, high), ttft_ms=(0.0, 0.0, 0.0), rule="order")
