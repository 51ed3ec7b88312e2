"""What a person sees while a checkpoint is made: a bar on a terminal, a line now and then elsewhere, or nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Final, TextIO, TypeAlias

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

Say: TypeAlias = Callable[[str], None]
_EVERY_S: Final = 15.0


class Display:
    """Says nothing: errors and the exit code still do."""

    is_live = False
    """A person watches a terminal; programs that we start may draw on it too."""

    def say(self, text: str) -> None:
        """One line worth keeping."""

    def step(self, stage: str, done: float, of: float, what: str) -> None:
        """A stage has come so far."""

    def close(self) -> None:
        """Nothing more comes."""


class PlainDisplay(Display):
    """Lines: for logs and pipes. Of a stage's steps the first, the last, and one every 15 seconds."""

    def __init__(self, out: TextIO = sys.stderr, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = out
        self._clock = clock
        self._stage = ""
        self._next = 0.0

    def say(self, text: str) -> None:
        """One line."""
        print(text, file=self._out, flush=True)

    def step(self, stage: str, done: float, of: float, what: str) -> None:
        """A line, if one is due."""
        now = self._clock()
        if stage == self._stage and now < self._next and done < of:
            return
        self._stage, self._next = stage, now + _EVERY_S
        self.say(f"  {stage}: {100 * done / of if of else 100:3.0f} %  {what}")


class LiveDisplay(Display):
    """A bar at the bottom of the terminal; lines scroll above it."""

    is_live = True

    def __init__(self, console: Console) -> None:
        columns = (TextColumn("  {task.fields[stage]}"), BarColumn(), TextColumn("{task.percentage:3.0f} %"))
        times = (TimeElapsedColumn(), TimeRemainingColumn(), TextColumn("{task.description}", style="dim"))
        self._console = console
        self._bar = Progress(*columns, *times, console=console, transient=True)
        self._stage = ""
        self._task: TaskID | None = None

    def say(self, text: str) -> None:
        """Scrolls above the bar."""
        self._console.print(text, markup=False, highlight=False)

    def step(self, stage: str, done: float, of: float, what: str) -> None:
        """Moves the bar; a new stage begins a new one."""
        if stage != self._stage or self._task is None:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._bar.start()  # only now: an installer before it draws its own progress
            self._stage, self._task = stage, self._bar.add_task(what, stage=stage, total=of)
        self._bar.update(self._task, completed=done, total=of, description=what)

    def close(self) -> None:
        """Removes the bar."""
        self._bar.stop()


def display_for(*, quiet: bool) -> Display:
    """The one that fits."""
    if quiet:
        return Display()
    console = Console(stderr=True)
    return LiveDisplay(console) if console.is_terminal else PlainDisplay()
