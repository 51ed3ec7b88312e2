"""What a person, or a script, sees while a run goes on: live, as plain lines, as JSON lines, or nothing.

The display is told what happens and decides nothing. p95 "so far" is over the measured window only, failures counted
as late; the report computes its own figures from the records and never from here.
"""

from __future__ import annotations

import bisect
import json
import math
import sys
import time
from dataclasses import dataclass, field
from typing import Any, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from bench.engine.base import StartProgress
from bench.observe.observations import PhaseStarted
from bench.records import Outcome, RequestRecord


@dataclass
class PointProgress:
    """What is known of the point that is being measured.

    Attributes:
        number: its place in all points of all runs, from 1.
        of: how many there are; None where nobody knows yet.
        label: "40 streams".
        planned_s: ramp and window together, seconds.
        phase: the phase that was entered last.
    """

    number: int
    of: int | None
    label: str
    planned_s: float
    phase: str = "preparing"
    window_s: float | None = None
    window_end_s: float | None = None
    finished: int = 0
    failed: int = 0
    _late: list[float] = field(default_factory=list)

    @property
    def place(self) -> str:
        """E.g. "[2/6]", or "[2]"."""
        return f"[{self.number}]" if self.of is None else f"[{self.number}/{self.of}]"

    def add(self, record: RequestRecord) -> None:
        """Counts a finished request."""
        self.finished += 1
        self.failed += record.outcome not in (Outcome.OK, Outcome.BARGE_IN)
        if self.window_s is not None and record.intended_s >= self.window_s and not record.primed:
            bisect.insort(self._late, record.e2e_s if record.outcome is Outcome.OK else math.inf)

    def enter(self, phase: PhaseStarted) -> None:
        """Notes the phase."""
        self.phase = phase.phase
        if phase.phase == "steady":
            self.window_s = phase.t

    @property
    def p95_s(self) -> float | None:
        """95th percentile of E2E in the window so far (order statistic), seconds; None before 20 requests."""
        enough = 20
        if len(self._late) < enough:
            return None
        return self._late[math.ceil(0.95 * len(self._late)) - 1]


class Display:
    """What happens in a run, told in order. This one says nothing: errors and the exit code still do."""

    is_live = False
    """A person watches a terminal; programs that we start may draw on it too."""

    def note(self, text: str) -> None:
        """One line worth keeping."""

    def engine(self, progress: StartProgress) -> None:
        """The engine's start goes on; called several times a second."""

    def point(self, progress: PointProgress) -> None:
        """A point begins; the object changes while it is measured."""

    def point_done(self, progress: PointProgress) -> None:
        """A point has ended."""

    def close(self) -> None:
        """Nothing more comes."""


def _p95(progress: PointProgress) -> str:
    if progress.p95_s is None:
        return "p95 --"
    return "p95 none (failures)" if math.isinf(progress.p95_s) else f"p95 {progress.p95_s:.3f} s"


class PlainDisplay(Display):
    """A line whenever something changes: for logs and pipes."""

    def __init__(self, out: TextIO = sys.stderr) -> None:
        self._out = out
        self._stage = ""

    def _line(self, text: str) -> None:
        print(text, file=self._out, flush=True)

    def note(self, text: str) -> None:
        """One line worth keeping."""
        self._line(text)

    def engine(self, progress: StartProgress) -> None:
        """A line per stage of the start."""
        if progress.stage != self._stage:
            self._stage = progress.stage
            self._line(f"  engine: {progress.elapsed_s:5.1f} s  {progress.stage}")

    def point(self, progress: PointProgress) -> None:
        """A line when a point begins."""
        self._line(f"{progress.place} {progress.label}: {progress.planned_s:.0f} s")

    def point_done(self, progress: PointProgress) -> None:
        """A line when it has ended."""
        self._line(f"    {progress.finished} requests, {progress.failed} failed, {_p95(progress)}")


class JsonDisplay(Display):
    """One JSON object a line: for scripts."""

    def __init__(self, out: TextIO = sys.stdout) -> None:
        self._out = out
        self._stage = ""

    def _emit(self, event: str, **values: Any) -> None:  # noqa: ANN401  whatever JSON can hold
        print(json.dumps({"event": event, **values}), file=self._out, flush=True)

    def note(self, text: str) -> None:
        """{"event": "note", "text": ...}."""
        self._emit("note", text=text)

    def engine(self, progress: StartProgress) -> None:
        """{"event": "engine", "stage": ..., "elapsed_s": ...}, once per stage."""
        if progress.stage != self._stage:
            self._stage = progress.stage
            self._emit("engine", stage=progress.stage, elapsed_s=round(progress.elapsed_s, 3))

    def point(self, progress: PointProgress) -> None:
        """{"event": "point", ...} when a point begins."""
        self._emit("point", number=progress.number, of=progress.of, label=progress.label, planned_s=progress.planned_s)

    def point_done(self, progress: PointProgress) -> None:
        """{"event": "point_done", ...} when it has ended; p95 is null below 20 requests or among failures."""
        p95 = progress.p95_s
        finite = p95 if p95 is not None and math.isfinite(p95) else None
        self._emit(
            "point_done", label=progress.label, requests=progress.finished, failed=progress.failed, p95_e2e_s=finite
        )


class LiveDisplay(Display):
    """A few lines at the bottom of the terminal that follow the run; what is worth keeping scrolls above them."""

    is_live = True

    def __init__(self, console: Console) -> None:
        self._console = console
        self._engine: StartProgress | None = None
        self._point: PointProgress | None = None
        self._point_since = 0.0
        self._live = Live(console=console, refresh_per_second=4, transient=True, get_renderable=self.render)

    def note(self, text: str) -> None:
        """Scrolls above the live lines."""
        self._console.print(Text(text))

    def engine(self, progress: StartProgress) -> None:
        """The stage and its time, live."""
        self._engine, self._point = progress, None
        self._live.start()  # only now, and no matter how often: an installer before it draws its own progress

    def point(self, progress: PointProgress) -> None:
        """The point, live."""
        self._engine, self._point, self._point_since = None, progress, time.monotonic()
        self._live.start()

    def point_done(self, progress: PointProgress) -> None:
        """Its result scrolls above the live lines."""
        self._point = None
        self._console.print(
            Text.assemble(
                ("  ✓ " if not progress.failed else "  ! ", "green" if not progress.failed else "red"),
                f"{progress.label:<24} {progress.finished:>5} requests  {progress.failed} failed  ",
                (_p95(progress), "bold"),
            )
        )

    def close(self) -> None:
        """Removes the live lines."""
        self._live.stop()

    def render(self) -> RenderableType:
        """The live lines as they are now."""
        if self._engine is not None:
            detail = f"  {self._engine.detail}" if self._engine.detail else ""
            return Text(f"  engine {self._engine.elapsed_s:5.0f} s  {self._engine.stage}{detail}", style="cyan")
        if self._point is not None:
            return self._render_point(self._point, time.monotonic() - self._point_since)
        return Text("")

    def _render_point(self, point: PointProgress, elapsed_s: float) -> RenderableType:
        left = max(0.0, point.planned_s - elapsed_s)
        row = Table.grid(padding=(0, 2))
        row.add_row(
            Text(f"  {point.place} {point.label}", style="bold"),
            Text(point.phase, style="yellow"),
            ProgressBar(total=point.planned_s, completed=min(elapsed_s, point.planned_s), width=24),
            Text(f"{left:3.0f} s left" if left else "finishing"),
        )
        figures = Text(f"      {point.finished} requests, {point.failed} failed, {_p95(point)} so far", style="dim")
        return Group(row, figures)


def display_for(*, quiet: bool, as_json: bool) -> Display:
    """The display that fits: JSON lines on standard output, nothing, live on a terminal, plain lines otherwise."""
    if as_json:
        return JsonDisplay()
    if quiet:
        return Display()
    console = Console(stderr=True)
    return LiveDisplay(console) if console.is_terminal else PlainDisplay()
