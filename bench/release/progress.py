"""What a person sees while reports are verified, packed and sent: bars on a terminal, lines elsewhere, or nothing."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
from rich.progress import Progress as Bars
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Progress:
    """Told what happens; writes to standard error only.

    Args:
        quiet: say nothing: errors and the exit code still do.
        console: to write to; by default standard error.
    """

    def __init__(self, *, quiet: bool = False, console: Console | None = None) -> None:
        self._quiet = quiet
        self._console = console or Console(stderr=True, highlight=False)

    def say(self, text: str) -> None:
        """One line. What comes from outside is plain text: nothing in it is markup."""
        if not self._quiet:
            self._console.print(Text(f"  {text}", "dim"), soft_wrap=True)

    @contextmanager
    def of(self, what: str, size: int | None) -> Iterator[Callable[[int], None]]:
        """A line for one file, and under it a bar while it lasts, where somebody watches.

        Args:
            what: is being done.
            size: bytes of the file; None where nobody knows.

        Yields:
            To be told how many bytes have gone through. A file that is sent and then fetched goes through twice.
        """
        self.say(what)
        if self._quiet or not self._console.is_terminal:
            yield lambda _done: None
            return
        columns = (TextColumn("  "), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        with Bars(*columns, console=self._console, transient=True) as bars:
            task = bars.add_task("", total=size)
            yield lambda done: bars.update(task, completed=done)
