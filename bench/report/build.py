"""The report of a measurement: a pure, deterministic function of the evidence.

Whoever has the evidence can build it again, without an engine and on another machine, and gets the same report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.explain.search.find import find
from bench.report.claims import exit_code, verdicts
from bench.report.disclosure import DEFINITIONS, assumptions, not_real, title
from bench.report.measurement import Measurement
from bench.report.model import Report
from bench.report.points import point_report
from bench.report.prefix import predict, prefix_cache
from bench.report.validity import checks
from bench.workload.prefix_cache_bounds import predict_served

if TYPE_CHECKING:
    from bench.report.evidence import Evidence
    from bench.report.prefix import Predict
    from bench.report.seen import Seen


def build_report(evidence: Evidence, predict_hits: Predict = predict_served) -> Report:
    """The whole report.

    Args:
        evidence: what was recorded.
        predict_hits: predicts prefix-cache hits from prompts.

    Raises:
        StreamproofError: evidence that contradicts itself.
    """
    recipe, measurement = evidence.recipe, Measurement.of(evidence)
    containers = measurement.seen.containers
    kinds = {started.kind_of_engine for started in measurement.seen.started.values()}
    engine_kind = kinds.pop() if len(kinds) == 1 else None
    external = engine_kind == "external"
    partial_reason = _why_partial(measurement.seen)
    partial = partial_reason is not None
    predicted = predict(measurement, predict_hits)
    judged = checks(measurement, predicted)
    valid = all(check.verdict != "broken" for check in judged)
    claims = verdicts(measurement, judged, evidence.environment, external=external)
    found = find(measurement, evidence.observations, judged, {} if external else evidence.environment)
    if found is not None:
        judged, valid = (*judged, found.check), found.valid
    searches = () if found is None else found.outcomes
    interrupted = measurement.seen.interrupted
    by_user = interrupted is not None and interrupted.cause == "user"
    unreal = not_real(recipe, external=external, partial=partial, containers=containers)
    return Report(
        title=title(recipe, unreal),
        target=recipe.target,
        fingerprint=evidence.fingerprint,
        started_at=evidence.started_at,
        producer=evidence.producer,
        engine_kind=engine_kind,
        partial=partial,
        partial_reason=partial_reason,
        valid=valid,
        exit_code=exit_code(claims, searches, valid=valid, partial=partial, by_user=by_user),
        not_real=unreal,
        points=tuple(
            point_report(measurement, index, prefix_cache(measurement, predicted, index)) for index in measurement.begun
        ),
        claims=claims,
        checks=judged,
        assumptions=assumptions(recipe, containers, measurement.seen.residents, measurement.seen.lasting),
        definitions=dict(DEFINITIONS),
        searches=searches,
    )


def _why_partial(seen: Seen) -> str | None:
    """Why the run ended early; None if it came to its end."""
    if seen.interrupted is not None:
        return f"{_CAUSES[seen.interrupted.cause]}: {seen.interrupted.detail}"
    return None if seen.finished else "the run has no end: the client was killed"


_CAUSES = {
    "user": "stopped by the user",
    "engine": "the engine died",
    "disk": "nothing more could be written",
    "client": "the client failed",
}
