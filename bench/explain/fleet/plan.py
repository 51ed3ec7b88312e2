"""The plan of a fleet from one report."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from bench.explain.fleet.measured import replica_of
from bench.explain.fleet.need import KEPT, SPARE, fleet
from bench.explain.fleet.outcome import FleetCase, FleetPlan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.explain.compare.side import Side
    from bench.explain.fleet.measured import Replica


def plan_fleet(side: Side, streams: int, *, slo: str | None, price: float | None) -> FleetPlan:
    """Plans.

    Args:
        side: a verified report.
        streams: open at once at the busiest moment.
        slo: the limit as written; None as in `replica_of`.
        price: of a GPU (or host) for an hour.

    Raises:
        UsageError, StreamproofError: as `replica_of`.
    """
    replica, hardware = replica_of(side, slo), side.evidence.recipe.hardware
    gpus = hardware.count if hardware.kind == "gpu" else 1
    return FleetPlan(
        streams=streams,
        report=side.name,
        title=side.report.title,
        target=side.report.target,
        fingerprint=side.report.fingerprint,
        slo=replica.slo.says,
        source=replica.source,
        confidence=replica.confidence,
        unit="GPU" if hardware.kind == "gpu" else "host",
        price=price,
        cases=tuple(
            FleetCase.model_validate(
                {"case": case, "says": says} | asdict(fleet(streams, number, gpus_each=gpus, price=price))
            )
            for case, says, number in _cases(replica)
        ),
        caveats=tuple(_caveats(side, replica)),
    )


def _cases(replica: Replica) -> Iterator[tuple[str, str, int]]:
    yield "certified", f"shown to hold at {replica.confidence * 100:g} %", replica.certified
    if replica.likely > replica.certified:
        yield "likely", "within the limit as measured; too few requests to show it", replica.likely
    if replica.refuted is not None and replica.refuted - 1 > replica.likely:
        yield "refuted", f"the most that is not ruled out: {replica.refuted} streams are", replica.refuted - 1


def _caveats(side: Side, replica: Replica) -> Iterator[str]:
    load = side.evidence.recipe.load
    yield (
        f"Buy for the certified number. It holds for a mean turn gap of {load.turn_gap.mean_s:g} s "
        f"({load.turn_gap.distribution}) and this workload; callers who speak more often need more"
    )
    yield f"{SPARE} replica more than needed: with one down every stream still finds a place within the limit"
    yield (
        "The streams are those open at once at the busiest moment. How they speak at the same time is in the measured "
        "number; that many calls start at the same minute is not"
    )
    yield (
        "Calls go to the least loaded replica and stay there, so that their prefixes stay cached. Spread at random, "
        f"some get more than their share: 'at random' keeps all within their number {KEPT * 100:g} times in 100"
    )
    if side.report.not_real:
        yield f"Measured with {', '.join(side.report.not_real)}: the fleet is as real as that"
    runs = side.facts.runs
    if runs == 1:
        yield "One engine start: how much starts differ is not known, and not in the certificate"
    if replica.refuted is None:
        yield "No measured number was shown not to hold: one replica may hold more, and the fleet may be too large"
