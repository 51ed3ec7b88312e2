"""Whether two reports can be compared at all.

A difference of flags, image, checkpoint or card is what a comparison is for. A difference of what was asked of the
engine makes two figures answers to two questions: that is refused, unless `--anyway` says that it is the question.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from bench.errors import Exit, StreamproofError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.explain.compare.outcome import Difference
    from bench.explain.compare.side import Side

_UNREAL: Final = (
    "dummy weights",
    "toy weights",
    "synthetic acceptance",
    "CPU",
    "external engine",
    "unaudited checkpoint",
)
"""What only one of two titles may not name."""


class NotComparableError(StreamproofError):
    """Two reports that cannot be compared: as a gate, neither a pass nor a regression."""

    exit_code: ClassVar[Exit] = Exit.INVALID


def check_comparable(base: Side, other: Side, differing: Sequence[Difference], *, anyway: bool) -> tuple[str, ...]:
    """What speaks against comparing them and was waived.

    Args:
        base: one report.
        other: the other one.
        differing: every value that differs.
        anyway: waive what can be waived.

    Raises:
        NotComparableError: says what speaks against it.
    """
    fatal = [*_unusable(base), *_unusable(other), *_without_common_point(base, other)]
    waivable = [*_asked_differently(differing), *_unlike(base, other)]
    if fatal:
        raise NotComparableError(
            f"{base.name} and {other.name} cannot be compared: {'; '.join([*fatal, *waivable])}.",
            remedy="Measure again what is invalid or missing: what these reports hold proves nothing side by side.",
        )
    if waivable and not anyway:
        raise NotComparableError(
            f"{base.name} and {other.name} answer different questions: {'; '.join(waivable)}.",
            remedy="Measure both with the same workload and load. If that difference is your question: --anyway.",
        )
    return tuple(waivable)


def _unusable(side: Side) -> Iterator[str]:
    if side.report.partial:
        yield f"{side.name} is partial ({side.report.partial_reason})"
    if not side.report.valid:
        broken = dict.fromkeys(check.rule for check in side.report.checks if check.verdict == "broken")
        yield f"{side.name} is invalid (broken: {', '.join(broken)})"


def _without_common_point(base: Side, other: Side) -> Iterator[str]:
    if not base.points.keys() & other.points.keys():
        ours, theirs = (", ".join(point.label for point in side.points) for side in (base, other))
        yield f"they have no operating point in common ({ours}; {theirs})"


def _asked_differently(differing: Sequence[Difference]) -> Iterator[str]:
    for each in differing:
        if each.group == "workload" or each.key.startswith("load.turn_gap"):
            yield f"{each.key} is {each.base or 'not set'} and {each.other or 'not set'}"


def _unlike(base: Side, other: Side) -> Iterator[str]:
    for words in _UNREAL:
        holders = [side.name for side in (base, other) if words in side.report.not_real]
        if len(holders) == 1:
            yield f"only {holders[0]} was measured with {words}"
