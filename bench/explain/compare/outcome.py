"""What a comparison says, as `--json` writes it and the page and the Markdown show it."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from bench.report.model import Number, Part
from bench.stats.change import Basis

SCHEMA_VERSION: Final = "1.0"

Metric: TypeAlias = Literal["e2e", "ttft", "tpot"]
GateVerdict: TypeAlias = Literal["no regression", "regression", "undecided"]
Group: TypeAlias = Literal[
    "flags",
    "environment variables",
    "image and packages",
    "checkpoint",
    "hardware",
    "driver",
    "workload",
    "load",
    "client",
    "recipe",
]


class SideFacts(Part):
    """One of the reports.

    Attributes:
        folder: as it was named.
        title, target, fingerprint, started_at: as its report says.
        runs: engine starts.
        unverified: why it is not verified; null where it is.
    """

    folder: str
    title: str
    target: str
    fingerprint: str
    started_at: str
    runs: int
    unverified: str | None


class Difference(Part):
    """One value that differs. What a report does not have is null."""

    group: Group
    key: str
    base: str | None
    other: str | None


class Effect(Part):
    """One figure of one operating point on both sides.

    Attributes:
        name: "p95 of E2E", "requests per second".
        metric, quantile: of a percentile; null for a throughput.
        base, other: seconds, or per second; null where there is none.
        difference, difference_low, difference_high: other minus base.
        ratio, low, high: other over base.
        confidence: of the two intervals.
        basis: what the intervals rest on.
        none: why there is no interval; empty where there is one.
    """

    name: str
    metric: Metric | None
    quantile: Number | None
    base: Number | None
    other: Number | None
    difference: Number | None = None
    difference_low: Number | None = None
    difference_high: Number | None = None
    ratio: Number | None = None
    low: Number | None = None
    high: Number | None = None
    confidence: Number | None = None
    basis: Basis | None = None
    none: str = ""


class Failures(Part):
    """Failed requests among those of the window, on each side."""

    base: int
    base_n: int
    other: int
    other_n: int


class PointEffect(Part):
    """One operating point that both reports measured."""

    label: str
    effects: tuple[Effect, ...]
    failures: Failures


class Gated(Part):
    """One gate at one operating point.

    Attributes:
        gate: as it was written.
        point: label.
        verdict: "regression" when the whole interval is over the limit, "no regression" when the whole is within it.
        limit: ratio.
        ratio, low, high, confidence: of the change; null where there is none.
        reason: in words.
        runs_needed: engine starts on each side that would decide it; null where it is decided, or nobody can say.
    """

    gate: str
    point: str
    verdict: GateVerdict
    limit: Number
    ratio: Number | None
    low: Number | None
    high: Number | None
    confidence: Number | None
    reason: str
    runs_needed: int | None


class ChangeClaim(Part):
    """A published change between two targets, and what the two reports say of it.

    Attributes:
        id, quote, by, kind: as in the recipe.
        asks: the claim as a condition.
        verdict: as in `bench.report.model.ClaimVerdict`.
        ratio, low, high: measured; null where there is none.
        reason: why this verdict.
    """

    id: str
    quote: str
    by: str
    kind: str
    asks: str
    verdict: Literal["reproduced", "not reproduced", "not comparable", "not enough samples"]
    ratio: Number | None
    low: Number | None
    high: Number | None
    reason: str


class Pair(Part):
    """One report against the base.

    Attributes:
        other: the report.
        same_fingerprint: the two are repeats of each other.
        waived: what would have been refused without `--anyway`.
        notes: what a reader of the figures must know.
        differences: in order of their groups.
        points: that both measured.
        left_out: points that only one of them has.
        gates, claims: judged.
    """

    other: SideFacts
    same_fingerprint: bool
    waived: tuple[str, ...]
    notes: tuple[str, ...]
    differences: tuple[Difference, ...]
    points: tuple[PointEffect, ...]
    left_out: tuple[str, ...]
    gates: tuple[Gated, ...]
    claims: tuple[ChangeClaim, ...]


class Comparison(Part):
    """All of it; the first report is the base of every pair."""

    schema_version: Literal["1.0"] = "1.0"
    base: SideFacts
    pairs: tuple[Pair, ...]
