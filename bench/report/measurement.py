"""Evidence made ready for figures and rules: which record belongs to which phase of which point of which run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bench.errors import StreamproofError
from bench.report.columns import Columns
from bench.report.seen import index

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bench.report.evidence import Evidence
    from bench.report.seen import RunPoint, Seen
    from recipes.schema import Recipe

    Rows = NDArray[np.intp]


class Place(IntEnum):
    """Where a record lies in its point, by its intended send time."""

    PRIMED = 0
    """A priming request, whenever it was sent."""
    RAMP = 1
    """Before the window."""
    WINDOW = 2
    """In [steady, drain): it counts, even when it ends after the window."""
    DRAIN = 3
    """After the window."""


@dataclass(frozen=True, slots=True)
class Window:
    """The measured window of one point of one run, seconds since the run's epoch: [start, end)."""

    start: float
    end: float

    @property
    def length(self) -> float:
        """In seconds."""
        return self.end - self.start


@dataclass(frozen=True, eq=False)
class Measurement:
    """Records and observations, each in its place.

    Attributes:
        recipe: as it was run.
        columns: the records.
        seen: the observations.
        rows: the records of each point of each run, in order of intended send time.
        place: `Place` of each record, shape (n,).
        windows: of the points that reached steady state. The window of a point that was interrupted in it ends with
            the last that was seen or recorded.
    """

    recipe: Recipe
    columns: Columns
    seen: Seen
    rows: dict[RunPoint, Rows]
    place: NDArray[np.int8]
    windows: dict[RunPoint, Window]

    @classmethod
    def of(cls, evidence: Evidence) -> Measurement:
        """Sorts evidence.

        Raises:
            StreamproofError: observations that contradict each other, or a point that the recipe does not have.
        """
        columns, seen = Columns.of(evidence.records), index(evidence.observations)
        rows = _group(columns)
        known = len(evidence.recipe.load.ladder)
        for run, point in sorted(rows.keys() | seen.phases.keys()):
            if point >= known:
                raise StreamproofError(
                    f"Run {run} has requests or phases of point {point}; the recipe's ladder has {known} points.",
                    remedy="Records and recipe are not of the same run, or one of them was changed.",
                )
        last = float(max(seen.last_s, columns.done.max(initial=0.0)))
        windows = {
            key: Window(phases.steady, last if phases.drain is None else phases.drain)
            for key, phases in seen.phases.items()
            if phases.steady is not None
        }
        place = np.full(len(columns.run), Place.RAMP, dtype=np.int8)
        for key, window in windows.items():
            here = rows.get(key, np.empty(0, np.intp))
            intended = columns.intended[here]
            place[here[intended >= window.start]] = Place.WINDOW
            if seen.phases[key].drain is not None:
                place[here[intended >= window.end]] = Place.DRAIN
        place[columns.primed] = Place.PRIMED
        return cls(evidence.recipe, columns, seen, rows, place, windows)

    @cached_property
    def _runs(self) -> dict[int, list[int]]:
        """The runs that began each point, both in order."""
        runs: dict[int, list[int]] = {}
        for point, run in sorted((point, run) for run, point in self.rows.keys() | self.seen.phases.keys()):
            runs.setdefault(point, []).append(run)
        return runs

    @property
    def begun(self) -> list[int]:
        """Indices of the points that at least one run began, in order."""
        return list(self._runs)

    def runs_of(self, point: int) -> list[int]:
        """The runs that began a point, in order."""
        return self._runs.get(point, [])

    def all_of(self, run: int, point: int) -> Rows:
        """Rows of all records of a point of a run."""
        return self.rows.get((run, point), np.empty(0, np.intp))

    def placed(self, run: int, point: int, place: Place) -> Rows:
        """Rows of the records of a point of a run in one place."""
        rows = self.all_of(run, point)
        here: Rows = rows[self.place[rows] == place]
        return here

    def in_window(self, point: int) -> Rows:
        """Rows of the window's records of a point, all runs together."""
        none: Rows = np.empty(0, np.intp)
        return np.concatenate([none, *(self.placed(run, point, Place.WINDOW) for run in self.runs_of(point))])

    def in_flight_seconds(self, run: int, point: int) -> float:
        """Seconds that requests were open inside a window, added up: from the first byte sent to the end."""
        window = self.windows.get((run, point))
        if window is None:
            return 0.0
        rows = self.all_of(run, point)
        rows = rows[~np.isnan(self.columns.sent[rows])]
        start = np.maximum(self.columns.sent[rows], window.start)
        end = np.minimum(self.columns.done[rows], window.end)
        return math.fsum(np.maximum(end - start, 0))

    def is_complete(self, point: int) -> bool:
        """Whether every run that the recipe asks for went through all phases of a point."""
        phases = (self.seen.phases.get((run, point)) for run in range(self.recipe.load.runs))
        return all(
            each is not None and each.steady is not None and each.drain is not None and each.done is not None
            for each in phases
        )


def _group(columns: Columns) -> dict[RunPoint, Rows]:
    """The rows of each (run, point) by one sort: in order of intended send time, whatever the order of the records."""
    order = np.lexsort((columns.done, columns.intended, columns.point, columns.run))
    run, point = columns.run[order], columns.point[order]
    changes = np.flatnonzero((np.diff(run) != 0) | (np.diff(point) != 0)) + 1
    groups = np.split(order, changes) if len(order) else []
    return {(int(columns.run[group[0]]), int(columns.point[group[0]])): group for group in groups}
