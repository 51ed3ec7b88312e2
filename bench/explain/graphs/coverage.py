"""How a run used its CUDA graphs: replayed, padded, never used, and steps without one.

Pure: from the tables that the engine wrote (`bench.engine.graph_tables`) and the measured windows.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bench.observe.observations import GraphTable

DEFAULT_INTERVAL_S: Final = 10.0
"""Between two tables, unless `VLLM_LOG_STATS_INTERVAL` says otherwise (vllm/envs.py, 0.26.0)."""

SLACK_S: Final = 1.0
"""A table may be read this much late, and still be of the interval before it."""

Histogram: TypeAlias = "Mapping[int, int]"
"""Tokens of a step to the number of such steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A measured window of one run, in seconds on the run's clock."""

    run: int
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeUse:
    """One captured size.

    Attributes:
        size: tokens of the graph.
        full, piecewise: steps that replayed it, by kind.
        tokens: that these steps computed.
        padded: tokens that they computed for nothing.
    """

    size: int
    full: int
    piecewise: int
    tokens: int
    padded: int

    @property
    def steps(self) -> int:
        """Steps that replayed it."""
        return self.full + self.piecewise


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """The use of all graphs over the windows.

    Attributes:
        mode: that the engine was set to.
        sizes: every captured size, in order.
        without: steps that no graph was replayed for, tokens to number.
        histogram: all steps.
        tables: how many tables lie in the windows as a whole.
        left_out: tables that do not.
        covered_s: seconds of the windows that they tell of.
        window_s: length of the windows, for each replica of the engine that told of its graphs.
    """

    mode: str
    sizes: tuple[SizeUse, ...]
    without: Histogram
    histogram: Histogram
    tables: int
    left_out: int
    covered_s: float
    window_s: float

    @property
    def steps(self) -> int:
        """All steps."""
        return sum(self.histogram.values())

    @property
    def covered(self) -> float:
        """Share of steps that replayed a graph."""
        return 1 - sum(self.without.values()) / self.steps

    @property
    def tokens(self) -> int:
        """Tokens of all steps, padding left out."""
        return sum(tokens * count for tokens, count in self.histogram.items())

    @property
    def padded(self) -> int:
        """Tokens computed for nothing."""
        return sum(use.padded for use in self.sizes)

    @property
    def padding(self) -> float:
        """Padding as a share of the tokens of all steps."""
        return self.padded / self.tokens if self.tokens else 0.0

    @property
    def unused(self) -> tuple[int, ...]:
        """Sizes that no step replayed."""
        return tuple(use.size for use in self.sizes if not use.steps)


def within(tables: Iterable[GraphTable], windows: Sequence[Window], interval_s: float) -> list[GraphTable]:
    """The tables whose whole interval lies in a window of their run.

    Args:
        tables: of all runs. One tells of the `interval_s` seconds before it was written.
        windows: that were measured.
        interval_s: between two tables.
    """
    return [
        table
        for table in tables
        if any(
            table.run == window.run and window.start_s <= table.t - interval_s and table.t - SLACK_S <= window.end_s
            for window in windows
        )
    ]


def coverage_of(tables: Sequence[GraphTable], windows: Sequence[Window], interval_s: float) -> Coverage | None:
    """The use of all graphs over the windows; None where no table lies in one.

    Args:
        tables: of all runs of a report, which had the same engine.
        windows: that were measured.
        interval_s: between two tables.
    """
    inside = within(tables, windows, interval_s)
    if not inside:
        return None
    histogram: Counter[int] = Counter()
    without: Counter[int] = Counter()
    full: Counter[int] = Counter()
    piecewise: Counter[int] = Counter()
    tokens: Counter[int] = Counter()
    padded: Counter[int] = Counter()
    for table in inside:
        for row in table.steps:
            histogram[row.tokens] += row.count
            if row.mode == "NONE":
                without[row.tokens] += row.count
                continue
            (full if row.mode == "FULL" else piecewise)[row.padded] += row.count
            tokens[row.padded] += row.tokens * row.count
            padded[row.padded] += (row.padded - row.tokens) * row.count
    sizes = {size for table in inside for size in table.capture_sizes} | full.keys() | piecewise.keys()
    return Coverage(
        mode=inside[-1].mode,
        sizes=tuple(
            SizeUse(size=size, full=full[size], piecewise=piecewise[size], tokens=tokens[size], padded=padded[size])
            for size in sorted(sizes)
        ),
        without=dict(sorted(without.items())),
        histogram=dict(sorted(histogram.items())),
        tables=len(inside),
        left_out=len(tables) - len(inside),
        covered_s=len(inside) * interval_s,
        window_s=sum(window.end_s - window.start_s for window in windows) * len({table.replica for table in tables}),
    )
