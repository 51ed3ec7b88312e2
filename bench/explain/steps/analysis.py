"""A report's replies, taken apart: every point with its parts, kinds of gaps and longest standstill.

The runs of a point are pooled, as the report pools them for its percentiles; a standstill is of one run.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isclose
from typing import TYPE_CHECKING

import numpy as np

from bench.errors import StreamproofError
from bench.explain.steps.kinds import Kinds, kinds_of
from bench.explain.steps.known import Known, known_of, planned_for
from bench.explain.steps.parts import Part, parts_of, slowest
from bench.explain.steps.read import Source, bounded, read
from bench.explain.steps.replies import Replies, replies_of, stamps
from bench.explain.steps.standstill import Standstill, longest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench.explain.steps.known import Planned
    from bench.report.model import PointReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Stood:
    """The longest standstill of a point.

    Attributes:
        run: in which.
        at_s: when it began, seconds into the window.
        standstill: itself.
    """

    run: int
    at_s: float
    standstill: Standstill


@dataclass(frozen=True, slots=True, kw_only=True)
class PointSteps:
    """One operating point.

    Attributes:
        index, label: of the point.
        runs: engine starts that began it.
        replies: complete ones that were sent in the window; with 0 of them there are no parts.
        requests: all that were sent in it.
        e2e_s: mean of the replies; None without any.
        slowest_e2e_s: mean of the slowest twentieth; None where there are too few replies.
        chunks: a reply; None without any.
        parts: they add up to `e2e_s`.
        kinds: of the gaps; None without replies.
        stood: the longest standstill; None where nothing was in flight in the window.
        known: what is known otherwise.
    """

    index: int
    label: str
    runs: int
    replies: int
    requests: int
    e2e_s: float | None
    slowest_e2e_s: float | None
    chunks: float | None
    parts: tuple[Part, ...]
    kinds: Kinds | None
    stood: Stood | None
    known: Known


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """What `just steps` shows.

    Attributes:
        folder: of the report, as it was named.
        target, title: of the report.
        valid: whether the report is.
        points: in order.
        no_floors: why there are none; empty where there are.
        stream_interval: tokens that the engine was told to send at once; 1 where nothing was said.
    """

    folder: str
    target: str
    title: str
    valid: bool
    points: tuple[PointSteps, ...]
    no_floors: str
    stream_interval: int


def analyse(folder: Path, progress: Callable[[str], None] = lambda _: None) -> Analysis:
    """Reads a report and takes its replies apart.

    Args:
        folder: of the report; anybody may have made it.
        progress: told what is done next.

    Raises:
        StreamproofError: no report, one that was changed, or one that no measurement could have left.
    """
    with bounded(folder):
        progress("reading the records")
        source = read(folder)
        planned = planned_for(source)
        points = []
        for point in source.report.points:
            progress(f"taking the replies apart, {point.label}")
            points.append(_steps(source, point, planned))
    return Analysis(
        folder=str(folder),
        target=source.report.target,
        title=source.report.title,
        valid=source.report.valid,
        points=tuple(points),
        no_floors=planned.why_not,
        stream_interval=_stream_interval(source),
    )


def _stream_interval(source: Source) -> int:
    told = source.recipe.engine.flags.get("stream_interval", 1)
    known = source.report.engine_kind != "external" and isinstance(told, int)
    return int(told) if known and isinstance(told, int) else 1


def _steps(source: Source, point: PointReport, planned: Planned) -> PointSteps:
    measurement, columns = source.measurement, source.measurement.columns
    rows = measurement.in_window(point.index)
    rows = rows[columns.sampled[rows]]
    replies = replies_of(columns, source.chunk_s, rows[columns.ok[rows]])
    n = len(replies.done)
    _same_mean(replies, point)
    kinds = kinds_of(replies.gaps, replies.begins) if n else None
    slow = slowest(replies.e2e)
    return PointSteps(
        index=point.index,
        label=point.label,
        runs=len(measurement.runs_of(point.index)),
        replies=n,
        requests=len(rows),
        e2e_s=float(replies.e2e.mean()) if n else None,
        slowest_e2e_s=None if slow is None else float(replies.e2e[slow].mean()),
        chunks=float(replies.chunks.mean()) if n else None,
        parts=parts_of(replies, kinds) if kinds is not None else (),
        kinds=kinds,
        stood=_stood(source, point.index),
        known=known_of(source, point, planned, tokens=_tokens_a_chunk(replies)),
    )


def _same_mean(replies: Replies, point: PointReport) -> None:
    """A report whose mean is not that of its records is not explained by them.

    Raises:
        StreamproofError: it is another one.
    """
    ours = float(replies.e2e.mean()) if len(replies.done) else None
    said = point.e2e.mean
    if (ours is None) != (said is None) or (
        ours is not None and said is not None and not isclose(ours, said, rel_tol=1e-9, abs_tol=1e-9)
    ):
        raise StreamproofError(
            f"report.json says a mean E2E of {said} s at {point.label}; its records give {ours} s.",
            remedy="One of the two was changed. See: just verify",
        )


def _tokens_a_chunk(replies: Replies) -> float | None:
    if not len(replies.done) or np.isnan(replies.tokens).any():
        return None
    return float(replies.tokens.sum() / replies.chunks.sum())


def _stood(source: Source, point: int) -> Stood | None:
    """The longest standstill of all runs, whatever became of the requests."""
    measurement, columns = source.measurement, source.measurement.columns
    found: list[Stood] = []
    for run in measurement.runs_of(point):
        window = measurement.windows.get((run, point))
        if window is None:
            continue
        rows = measurement.all_of(run, point)
        rows = rows[~np.isnan(columns.sent[rows])]
        chunks, _ = stamps(source.chunk_s, rows)
        stood = longest(columns.sent[rows], columns.done[rows], chunks, since_s=window.start, until_s=window.end)
        if stood is not None:
            found.append(Stood(run=run, at_s=stood.start_s - window.start, standstill=stood))
    return max(found, key=lambda each: each.standstill.seconds, default=None)
