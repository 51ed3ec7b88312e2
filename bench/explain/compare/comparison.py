"""Two or more reports beside each other: refused, or compared with the first one as the base."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.errors import Exit, UsageError
from bench.explain.compare.against import change_claims
from bench.explain.compare.comparable import check_comparable
from bench.explain.compare.differs import differences
from bench.explain.compare.effects import effects
from bench.explain.compare.gate import judge
from bench.explain.compare.outcome import Comparison, Pair

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.explain.compare.gate import Gate
    from bench.explain.compare.side import Side


def compare(sides: Sequence[Side], gates: Sequence[Gate] = (), *, anyway: bool = False) -> Comparison:
    """Compares every other report with the first one.

    Args:
        sides: two or more.
        gates: to be judged for every other report.
        anyway: compare what answers different questions.

    Raises:
        UsageError: fewer than two, or one of them twice.
        NotComparableError: two of them cannot be compared.
    """
    if len(sides) < 2:
        raise UsageError("There is one report, and nothing to compare it with.", remedy="just compare BASE OTHER ...")
    seen: dict[str, str] = {}
    for side in sides:
        if side.identity in seen:
            raise UsageError(
                f"{seen[side.identity]} and {side.name} are the same report.",
                remedy="Two runs of one recipe can be compared, one run with itself cannot: name the other folder.",
            )
        seen[side.identity] = side.name
    base, *others = sides
    return Comparison(base=base.facts, pairs=tuple(_pair(base, other, gates, anyway=anyway) for other in others))


def exit_code(comparison: Comparison) -> Exit:
    """0; 3 where a regression or a claim that does not hold is certain; 4 where a gate or a claim is undecided."""
    verdicts = {gated.verdict for pair in comparison.pairs for gated in pair.gates}
    claims = {claim.verdict for pair in comparison.pairs for claim in pair.claims}
    if "regression" in verdicts or "not reproduced" in claims:
        return Exit.CLAIM_FAILED
    return Exit.INVALID if "undecided" in verdicts or "not enough samples" in claims else Exit.OK


def _pair(base: Side, other: Side, gates: Sequence[Gate], *, anyway: bool) -> Pair:
    differing = differences(base, other)
    waived = check_comparable(base, other, differing, anyway=anyway)
    return Pair(
        other=other.facts,
        same_fingerprint=base.report.fingerprint == other.report.fingerprint,
        waived=waived,
        notes=tuple(_notes(base, other)),
        differences=differing,
        points=effects(base, other),
        left_out=tuple(_left_out(base, other)),
        gates=judge(gates, base, other),
        claims=change_claims(base, other),
    )


def _left_out(base: Side, other: Side) -> Iterator[str]:
    for side, without in ((base, other), (other, base)):
        for point in side.points:
            if point not in without.points:
                yield f"{point.label}: only in {side.name}"


def _notes(base: Side, other: Side) -> Iterator[str]:
    for side in (base, other):
        if side.unverified is not None:
            yield f"{side.name} is not verified: {side.unverified}"
        if side.remark:
            yield f"the figures of {side.name} are verified, its pages are not: {side.remark}"
        if side.report.engine_kind == "external":
            yield f"{side.name} was measured on somebody else's engine: what answered is not known"
    one, two = base.facts.runs, other.facts.runs
    if max(one, two) == 1:
        yield (
            "one engine start on each side: how much starts differ is not known. The intervals are about these two "
            "starts only; what lies between them may be chance, and no gate is decided by it"
        )
    elif min(one, two) == 1:
        single = base if one == 1 else other
        yield f"{single.name} has one engine start; others of its kind are taken to differ as the other side's do"
