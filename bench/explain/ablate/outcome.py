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
        added_first: over the base.
        removed_last: of the full recipe over the full recipe without it.
        interaction: the first over the second: 1 where the factor does the same alone and beside all others.
        interacts: whether that interval leaves out 1; null where there is no interval.
        share: what stands for the factor where it does not interact: the geometric mean of both effects; null where it
            does, or where nobody can say.
        says: what follows, in words.
    """

    factor: str
    added_first: Interval
    removed_last: Interval
    interaction: Interval
    interacts: bool | None
    share: Interval | None
    says: str


class FigureEffects(Part):
    """One percentile of one operating point.

    Attributes:
        point: label.
        quantile: of E2E.
        seconds: median over the blocks, by configuration.
        total: the full recipe over the base.
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
    """One engine start that counts: its report, and the digest of its attestation."""

    block: int
    configuration: str
    report: str
    attestation_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Ablation(Part):
    """All of it.

    Attributes:
        target, base: names.
        factors: (slug, name, keys).
        blocks: complete ones that count. left_out: why others do not.
        complete: every planned block counts.
        runs: that count.
        figures: point by point.
    """

    schema_version: Literal["1.0"] = "1.0"
    target: str
    base: str
    title: str
    not_real: tuple[str, ...]
    factors: tuple[tuple[str, str, tuple[str, ...]], ...]
    blocks: int
    left_out: tuple[str, ...]
    complete: bool
    runs: tuple[RunPart, ...]
    figures: tuple[FigureEffects, ...]
