"""The report in one sentence, and how each verdict is coloured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from bench.report.render.words import plural, sentence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.report.model import Check, Estimate, Report

Tone: TypeAlias = Literal["good", "bad", "warn", "plain"]

CLAIM_TONES: Final[dict[str, Tone]] = {
    "reproduced": "good",
    "consistent with": "good",
    "not reproduced": "bad",
    "invalid measurement": "bad",
    "not enough samples": "warn",
    "not comparable": "plain",
}
CHECK_TONES: Final[dict[str, Tone]] = {"kept": "good", "broken": "bad", "unknown": "warn"}


@dataclass(frozen=True, slots=True)
class Headline:
    """What stands first.

    Attributes:
        tone: class of the style sheet.
        says: one sentence.
        details: what it rests on, each a line.
    """

    tone: Tone
    says: str
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Badge:
    """A verdict in a few words, and how it is coloured."""

    tone: Tone
    says: str


def within_budget(report: Report, estimate: Estimate, budget_s: float) -> Badge | None:
    """How a percentile lies to a limit, by its whole interval; None where there is no figure or it proves nothing."""
    if report.partial or not report.valid or (estimate.value is None and not estimate.among_failures):
        return None
    limit = f"{budget_s:g} s"
    if estimate.high is not None and estimate.high <= budget_s:
        return Badge("good", f"within {limit}")
    if estimate.low is None or estimate.low > budget_s:
        return Badge("bad", f"over {limit}")
    return Badge("warn", f"about {limit}")


def headline(report: Report) -> Headline:
    """The most important thing first: not whole, then not valid, then what the claims came to."""
    broken = tuple(_broken(report))
    if report.partial:
        reason = (report.partial_reason,) if report.partial_reason else ()
        return Headline(
            "warn", "Partial report: the run ended early, and nothing is concluded from it.", reason + broken
        )
    if not report.valid:
        rules = plural(len({check.rule for check in report.checks if check.verdict == "broken"}), "rule")
        return Headline(
            "bad", f"Invalid: the measurement breaks {rules} of its own, so its figures prove nothing.", broken
        )
    return _of_searches(report) if report.searches else _of_claims(report)


def _of_searches(report: Report) -> Headline:
    alone = len(report.searches) == 1
    says = [sentence(outcome.says if alone else outcome.among_others) for outcome in report.searches]
    found = [outcome.found for outcome in report.searches]
    open_ended = all(outcome.found or outcome.answer == "undecided" for outcome in report.searches)
    tone: Tone = "good" if all(found) else "warn" if open_ended else "bad"
    if alone:
        return Headline(tone, says[0])
    held = f"{sum(found)} of {plural(len(found), 'limit')} hold somewhere in the range that was asked about."
    return Headline(tone, held, tuple(says))


def _broken(report: Report) -> Iterator[str]:
    """A line for every broken rule, with its figures where it is broken at one place only."""
    labels = {point.index: point.label for point in report.points}
    rules: dict[str, list[Check]] = {}
    for check in report.checks:
        if check.verdict == "broken":
            rules.setdefault(check.rule, []).append(check)
    for rule, checks in rules.items():
        where = ", ".join("whole run" if check.point is None else labels[check.point] for check in checks)
        figures = f": {checks[0].measured}; expected {checks[0].expected}" if len(checks) == 1 else ""
        yield f"broken: {rule} ({where}){figures}"


def _of_claims(report: Report) -> Headline:
    if not report.claims:
        return Headline("plain", "A valid measurement; its recipe has no published claim to compare with.")
    held = sum(claim.verdict in {"reproduced", "consistent with"} for claim in report.claims)
    failed = sum(claim.verdict == "not reproduced" for claim in report.claims)
    short = sum(claim.verdict == "not enough samples" for claim in report.claims)
    others = len(report.claims) - held - failed - short
    rest = tuple(
        text
        for amount, text in (
            (short, f"{plural(short, 'claim')} had not enough samples to be judged."),
            (others, f"{plural(others, 'claim')} cannot be compared with this measurement; the reasons stand below."),
        )
        if amount
    )
    if failed:
        return Headline("bad", f"Not reproduced: {failed} of {plural(held + failed, 'comparable claim')}.", rest)
    if held:
        return Headline("good", f"Reproduced: {held} of {plural(held, 'comparable claim')}.", rest)
    if short:
        return Headline("warn", "Valid, but with too few samples to judge any claim.", rest)
    return Headline(
        "plain", "A valid measurement, and no reproduction: no published claim can be compared with it.", rest
    )
