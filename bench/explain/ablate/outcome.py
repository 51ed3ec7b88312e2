"""What an ablation came to: `ablation.json`, a pure function of the plan and of the runs' records."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from bench.report.model import Number, Part


class Interval(Part):
    """An effect as a ratio of latencies; below 1 is faster. The ends are null where nothing tells the chance."""

    ratio: Number
    low: Number | None
    high: Number | None


class FactorEffect(Part):
    """One factor at one figure.

    Attributes:
        factor: slug.
        added_first: over the base; null where that was not measured.
        removed_last: of the full recipe over the full recipe without it; likewise.
        interaction: the first over the second: 1 where the factor does the same alone and beside all others; null
            without both.
        interacts: whether that interval leaves out 1; null where there is no interval.
        share: what stands for the factor where it does not interact: the geometric mean of both effects; null where it
            does, or where nobody can say.
        says: what follows, in words.
    """

    factor: str
    added_first: Interval | None
    removed_last: Interval | None
    interaction: Interval | None
    interacts: bool | None
    share: Interval | None
    says: str


class FigureEffects(Part):
    """One percentile of one operating point.

    Attributes:
        point: label.
        quantile: of E2E.
        seconds: median over the blocks, by configuration.
        total: the full recipe over the base; null where that was not measured.
        factors: in order of the plan.
        confidence: that all effects and shares of this figure are within their intervals; and that each interaction is.
        none: why there are no effects; empty where there are.
    """

    point: str
    quantile: Number
    seconds: dict[str, Number]
    total: Interval | None
    factors: tuple[FactorEffect, ...]
    confidence: Number
    none: str


class RunPart(Part):
    """One measurement that counts.

    Attributes:
        group, block, configuration: its place in the plan.
        start: names the engine start that it shares with others; null for a start of its own.
        report: folder, below the ablation's.
        attestation_sha256: of that report.
    """

    group: int
    block: int
    configuration: str
    start: str | None
    report: str
    attestation_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Ablation(Part):
    """All of it.

    Attributes:
        target, base: names.
        factors: (slug, name, keys).
        only: the one direction in which they were switched; null for both.
        adapted: (configuration, or "all", what it has besides its factors).
        blocks: complete ones that count, of the group with the fewest. left_out: what else does not count, and why.
        complete: everything that was planned counts.
        runs: that count.
        figures: point by point.
    """

    schema_version: Literal["1.0"] = "1.0"
    target: str
    base: str
    title: str
    not_real: tuple[str, ...]
    factors: tuple[tuple[str, str, tuple[str, ...]], ...]
    only: Literal["added", "removed"] | None
    adapted: tuple[tuple[str, tuple[str, ...]], ...]
    blocks: int
    left_out: tuple[str, ...]
    complete: bool
    runs: tuple[RunPart, ...]
    figures: tuple[FigureEffects, ...]

    @property
    def starts(self) -> int:
        """Engine starts that the runs were measured on."""
        return len({run.start for run in self.runs if run.start}) + sum(run.start is None for run in self.runs)

    @property
    def shared(self) -> bool:
        """Whether several measurements were made on one engine start."""
        return self.starts < len(self.runs)

    @property
    def groups(self) -> int:
        """How many sets of configurations were measured beside each other."""
        return len({run.group for run in self.runs})
