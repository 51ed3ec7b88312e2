"""What pictures are drawn from: the same samples that the figures of the report come from."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from bench.report.measurement import Measurement
from bench.report.render.figure_timeline import Bars, Span
from bench.stats.quantiles import Sample

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bench.report.evidence import Evidence

Metric: TypeAlias = Literal["e2e", "ttft"]


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """A measurement, asked for pictures.

    Attributes:
        measurement: every record in its place.
        stream: index of the stream of each record, shape (n,).
    """

    measurement: Measurement
    stream: NDArray[np.int64]

    @classmethod
    def of(cls, evidence: Evidence) -> Samples:
        """Sorts the evidence, as the report does."""
        return cls(Measurement.of(evidence), np.asarray(evidence.records.column("stream").to_numpy(), dtype=np.int64))

    def window(self, point: int, metric: Metric) -> Sample:
        """The sample of one metric at one point, pooled over the windows of all runs."""
        columns = self.measurement.columns
        rows = self.measurement.in_window(point)
        rows = rows[columns.sampled[rows]]
        return Sample.of((columns.e2e if metric == "e2e" else columns.ttft)[rows])

    def bars(self, run: int, point: int) -> Bars:
        """Every request of one point of one run, the priming ones left out."""
        columns = self.measurement.columns
        rows = self.measurement.all_of(run, point)
        rows = rows[~columns.primed[rows]]
        return Bars(
            stream=self.stream[rows],
            intended=columns.intended[rows],
            sent=columns.sent[rows],
            first_token=columns.first_token[rows],
            done=columns.done[rows],
            failed=columns.sampled[rows] & ~columns.ok[rows],
        )

    def phases(self, run: int, point: int) -> list[Span]:
        """The phases of one point of one run that have both ends, in order; a window that was cut off has one too."""
        phases = self.measurement.seen.phases.get((run, point))
        if phases is None:
            return []
        names = ("prime", "ramp", "steady", "drain", "done")
        begun = [(name, time) for name in names if (time := getattr(phases, name)) is not None]
        spans = [Span(name, time, after) for (name, time), (_, after) in pairwise(begun)]
        if phases.steady is not None and phases.drain is None:
            spans.append(Span("steady", phases.steady, self.measurement.windows[run, point].end))
        return spans
