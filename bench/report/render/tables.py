"""A small table beneath a figure: what the figure shows, for those who cannot see it or want the digits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Cell:
    """What stands in one place of a table.

    Attributes:
        text: the figure.
        between: below it in small letters: its interval, its range; empty where there is none.
    """

    text: str
    between: str = ""


Row: TypeAlias = tuple[Cell | str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table whose first column names its rows.

    Attributes:
        summary: what is clicked to see it, and the name of its region.
        caption: what the figures are.
        heads: names of the columns.
        rows: each as long as `heads`.
        words: columns of words, by index; the others hold figures and are set to the right. The first is never one.
    """

    summary: str
    caption: str
    heads: tuple[str, ...]
    rows: tuple[Row, ...]
    words: frozenset[int] = frozenset()


def cell(value: Cell | str) -> Cell:
    """The place of a table, whether it was written in short or not."""
    return Cell(value) if isinstance(value, str) else value
