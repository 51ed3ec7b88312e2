"""What changed since a former release: each report beside the former report of its target."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from bench.errors import UsageError
from bench.explain.compare.comparable import NotComparableError
from bench.explain.compare.comparison import compare
from bench.explain.compare.side import read_side

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench.explain.compare.outcome import Comparison
    from bench.explain.compare.side import Side
    from bench.release.bring import Here
    from bench.release.published import Published
    from bench.report.keys import TrustedKey

THIS: Final = "this report"
FORMER: Final = "the former report"
"""What the two sides are called: notes are read where nobody has the folders."""


@dataclass(frozen=True, slots=True)
class Since:
    """A report beside the former one.

    Attributes:
        former: that one.
        comparison: with the former one as the base; None where the two cannot be compared.
        refused: why not.
    """

    former: Side
    comparison: Comparison | None
    refused: str = ""


def compare_with_former(
    reports: Sequence[Published],
    formers: Sequence[Here],
    trusted: Mapping[str, TrustedKey],
    *,
    anyway: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Since]:
    """Compares each report with the former one of the same target.

    One report and one former one are compared whatever their targets are.

    Args:
        reports: of this release.
        formers: reports of a former one.
        trusted: keys by id.
        anyway: compare what answers different questions, and publish what cannot be compared.
        say: told what is being done.

    Returns:
        By the report's stem; reports without a former one are left out.

    Raises:
        UsageError: a former report that belongs to none of the reports, or two that belong to the same one.
        StreamproofError: one is not verified.
        NotComparableError: two cannot be compared, and `anyway` is not given.
    """
    found: dict[str, Since] = {}
    for here in formers:
        say(f"comparing with {here.name}")
        former = read_side(here.folder, trusted)
        report = _of_target(former, here, reports, alone=len(reports) == len(formers) == 1)
        if report.stem in found:
            raise UsageError(
                f"{here.name} is the second former report for {report.here.name}.",
                remedy="Name one former report for each target.",
            )
        found[report.stem] = _since(former, read_side(report.here.folder, trusted), anyway=anyway)
    return found


def _of_target(former: Side, here: Here, reports: Sequence[Published], *, alone: bool) -> Published:
    target = former.report.target
    matching = [report for report in reports if alone or report.report.target == target]
    if len(matching) != 1:
        many = "none" if not matching else "more than one"
        raise UsageError(
            f"--former {here.name} is of target {target}, and {many} of the reports is.",
            remedy="A former report is compared with the report of its target: name exactly one of that target.",
        )
    return matching[0]


def _since(former: Side, side: Side, *, anyway: bool) -> Since:
    base = replace(former, name=FORMER)
    try:
        comparison = compare([base, replace(side, name=THIS)], anyway=anyway)
    except NotComparableError as refused:
        if not anyway:
            raise
        return Since(former, None, refused.message)
    return Since(former, comparison)
