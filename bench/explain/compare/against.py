"""Published changes between two targets: "the new quantization brought p95 from 600 ms to 500 ms".

Such a claim is the ratio of the two published figures, with the claim's tolerance. It is judged by the interval of the
measured ratio: wholly at or under it *reproduced*, wholly over it *not reproduced*, else *not enough samples*. One
engine start on each side cannot tell what another start would have brought, and is never enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.explain.compare.effects import name_of, percentile_change
from bench.explain.compare.outcome import ChangeClaim
from bench.report.claims import differences
from bench.report.render import words
from bench.stats.change import runs_to_decide

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.explain.compare.side import Side
    from bench.stats.change import Change
    from recipes.schema import Claim


def change_claims(base: Side, other: Side) -> tuple[ChangeClaim, ...]:
    """The claims of the second report's recipe about its change from the first one's target."""
    return tuple(
        _judge(base, other, claim)
        for claim in other.evidence.recipe.claims
        if claim.against == base.report.target and other.report.target in claim.targets
    )


def limit_of(claim: Claim) -> float | None:
    """The largest ratio that still holds the claim; None where the other target's figure is not given."""
    return None if claim.against_value_s is None else claim.limit_s / claim.against_value_s


def _judge(base: Side, other: Side, claim: Claim) -> ChangeClaim:
    limit = limit_of(claim)
    what = f"{name_of(claim.metric, claim.quantile)} at {claim.point.label}, over that of {claim.against}"
    asks = what if limit is None else f"{what}, at most {limit:.3g} ({_figures(claim)} + {claim.tolerance * 100:g} %)"
    said = ChangeClaim(
        id=claim.id,
        quote=claim.quote,
        by=claim.by,
        kind=claim.kind,
        asks=asks,
        verdict="not comparable",
        ratio=None,
        low=None,
        high=None,
        reason="",
    )
    if limit is None:
        return said.model_copy(update={"reason": f"it gives no figure of {claim.against}"})
    if reasons := [*_not_about_these(base, other, claim)]:
        return said.model_copy(update={"reason": "; ".join(reasons)})
    change = percentile_change(base, other, claim.point, claim.metric, claim.quantile, confidence=0.95)
    if isinstance(change, str):
        return said.model_copy(update={"verdict": "not enough samples", "reason": change})
    return said.model_copy(update=_by_interval(change, limit))


def _figures(claim: Claim) -> str:
    return f"{words.seconds(claim.value_s)} over {words.seconds(claim.against_value_s)}"


def _not_about_these(base: Side, other: Side, claim: Claim) -> Iterator[str]:
    """What the claim is about and these two reports are not."""
    alone = claim.model_copy(update={"against": None})
    yield from differences(other.evidence.recipe, alone, _machine(other))
    # The base is the target that the claim names as `against`, with weights of its own; the rest must fit it as well.
    of_base = alone.model_copy(update={"targets": [base.report.target], "precision": None})
    yield from (
        f"{base.report.target}: {reason}" for reason in differences(base.evidence.recipe, of_base, _machine(base))
    )
    for side in (base, other):
        if claim.point not in side.points:
            yield f"{side.report.target} did not measure {claim.point.label}"


def _machine(side: Side) -> dict[str, object]:
    """Where it was measured; of somebody else's engine the client's machine says nothing."""
    return {} if side.report.engine_kind == "external" else dict(side.evidence.environment)


def _by_interval(change: Change, limit: float) -> dict[str, object]:
    figures = {"ratio": change.ratio, "low": change.low, "high": change.high}
    seen = f"the ratio is {change.ratio:.3f} ({change.low:.3f} to {change.high:.3f})"
    if change.basis == "within these two starts":
        reason = f"{seen} between these two engine starts; how much starts differ is not known: raise load.runs"
        return figures | {"verdict": "not enough samples", "reason": reason}
    if change.high <= limit:
        return figures | {"verdict": "reproduced", "reason": f"{seen}, all of it at most {limit:.3f}"}
    if change.low > limit:
        return figures | {"verdict": "not reproduced", "reason": f"{seen}, all of it over {limit:.3f}"}
    runs = runs_to_decide(change, limit)
    more = "" if runs is None else f"; some {runs} engine starts on each side would decide it"
    return figures | {"verdict": "not enough samples", "reason": f"{seen}, on both sides of {limit:.3f}{more}"}
