"""How many streams one replica holds: what a report proves, what it makes likely, and what it rules out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bench.errors import StreamproofError, UsageError
from bench.explain.slo.parse import parse_slo
from bench.stats.certificate import CERTIFICATE_CONFIDENCE, allowed_over, refuting_over
from bench.stats.clustered import Counts, design_effect
from bench.stats.settle import worth

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from bench.explain.compare.outcome import Metric
    from bench.explain.compare.side import Side
    from bench.explain.search.outcome import SearchOutcome
    from bench.explain.slo.limit import Slo
    from recipes.schema import Point

DEFAULT_SLO: Final = "e2e:p95:1s"


@dataclass(frozen=True, slots=True)
class Step:
    """One stream count that was measured.

    Attributes:
        streams: open at once.
        n, bad: requests of the window, and those that broke the limit or failed.
        certified: shown to hold. refuted: shown not to.
    """

    streams: int
    n: int
    bad: int
    certified: bool
    refuted: bool


@dataclass(frozen=True, slots=True)
class Replica:
    """Streams that one replica holds.

    Attributes:
        slo: the limit.
        certified: the most streams that are shown to hold, with every measured smaller number.
        likely: the most whose share of bad requests is within the limit, with every smaller number; the certified
            number or more.
        refuted: the fewest that are shown not to hold; None where no number is.
        confidence: of each certificate.
        steps: what it follows from, in order; empty where a search of the report says it.
        source: "the ladder" or "the search".
    """

    slo: Slo
    certified: int
    likely: int
    refuted: int | None
    confidence: float
    steps: tuple[Step, ...]
    source: str


def replica_of(side: Side, wanted: str | None) -> Replica:
    """What a report says of one replica.

    Args:
        side: verified.
        wanted: the limit as written; None takes the one that the report searched for, else p95 of E2E at one second.

    Raises:
        UsageError: the limit is none, or the report measured no streams.
        StreamproofError: the report is partial or invalid, or shows no number of streams to hold.
    """
    _refuse_unusable(side)
    searches = [search for search in side.report.searches if search.question.axis == "streams"]
    searched_for = searches[0].question.slo if searches else parse_slo(DEFAULT_SLO)
    slo = searched_for if wanted is None else parse_slo(wanted)
    same = [
        search
        for search in searches
        if (search.question.slo.limits, search.question.slo.share) == (slo.limits, slo.share)
    ]
    found = _of_search(same[0], slo) if same else _of_ladder(side, slo)
    if found is None:
        raise StreamproofError(
            f"{side.name} shows no number of streams at which {slo.says} holds.",
            remedy=f"Search for it: just capacity {side.report.target} --slo {slo.text}",
        )
    return found


def _refuse_unusable(side: Side) -> None:
    report = side.report
    if report.partial:
        raise StreamproofError(
            f"{side.name} is partial: {report.partial_reason}.", remedy="Plan from a run that came to its end."
        )
    if not report.valid:
        broken = dict.fromkeys(check.rule for check in report.checks if check.verdict == "broken")
        raise StreamproofError(
            f"{side.name} is invalid (broken: {', '.join(broken)}): its figures prove nothing.",
            remedy="Measure again; the report says what to do.",
        )


def _of_search(search: SearchOutcome, slo: Slo) -> Replica | None:
    if search.holds is None or not search.found:
        return None
    certified = int(search.holds)
    crossing = certified if search.crossing is None else int(search.crossing)
    refuted = None if search.fails is None else int(search.fails)
    likely = max(certified, crossing if refuted is None else min(crossing, refuted))
    return Replica(slo, certified, likely, refuted, search.confidence, (), "the search")


def _of_ladder(side: Side, slo: Slo) -> Replica | None:
    steps = tuple(sorted(_steps(side, slo), key=lambda step: step.streams))
    if not steps:
        raise UsageError(
            f"{side.name} measured no open streams with the turn gap of its recipe.",
            remedy="Plan from a report whose ladder has streams, best from one of: just capacity",
        )
    certified = likely = 0
    for step in steps:
        if step.refuted or step.bad > (1 - slo.share) * step.n:
            break
        likely = step.streams
        certified = step.streams if step.certified else certified
    refuted = next((step.streams for step in steps if step.refuted), None)
    if not certified:
        return None
    return Replica(slo, certified, likely, refuted, CERTIFICATE_CONFIDENCE, steps, "the ladder")


def _steps(side: Side, slo: Slo) -> Iterator[Step]:
    plain: dict[Point, tuple[int, ...]] = {
        point: indices
        for point, indices in side.points.items()
        if point.streams is not None and point.barge_in is None and point.turn_gap is None
    }
    for point, indices in plain.items():
        windows = tuple(_bad(side, indices, slo))
        counts = Counts(windows)
        n, bad = worth(counts, design_effect([counts]))
        allowed, refuting = allowed_over(n, slo.share), refuting_over(n, slo.share)
        yield Step(
            streams=point.streams or 0,
            n=counts.n,
            bad=counts.bad,
            certified=allowed is not None and bad <= allowed,
            refuted=refuting is not None and bad >= refuting,
        )


def _bad(side: Side, indices: tuple[int, ...], slo: Slo) -> Iterator[NDArray[np.bool_]]:
    """Which requests broke the limit, for each engine start in order of time."""
    metrics: list[tuple[Metric, float]] = [(limit.metric, limit.limit_s) for limit in slo.limits]
    starts = zip(*(side.latencies(indices, metric) for metric, _ in metrics), strict=True)
    for latencies in starts:
        over = [values > limit for values, (_, limit) in zip(latencies, metrics, strict=True)]
        if len({len(each) for each in over}) > 1:
            raise StreamproofError(
                f"{side.name}: some requests have no {slo.text.split(':')[0]}.", remedy="Use a limit on E2E or TTFT."
            )
        yield np.logical_or.reduce(over)
