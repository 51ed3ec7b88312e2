"""Whether the same request got the same answer, in one line; the figures stand with the rules of validity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.report.rules_probe import ANSWERED, CACHED, NOT_APPLICABLE, REPEATED, RULES

if TYPE_CHECKING:
    from bench.report.model import Report


def same_answers(report: Report) -> str:
    """The line; empty for a report from before anybody asked."""
    checks = {check.rule: check for check in report.checks if check.rule in RULES}
    if not checks:
        return ""
    broken = next((check for check in checks.values() if check.verdict == "broken"), None)
    repeated, cached = checks[REPEATED], checks.get(CACHED)
    if broken is not None:
        what = "A request of the probe was lost" if broken.rule == ANSWERED else "The same request got another answer"
        return f"{what}: {broken.measured}."
    if repeated.verdict == "unknown":
        measured = repeated.measured
        return (
            "Whether the same request gets the same answer is "
            f"{measured if measured.startswith(NOT_APPLICABLE) else f'unknown: {measured}'}."
        )
    line = "The same request got the same answer before and after others"
    if cached is None:
        return f"{line}."
    if cached.verdict == "kept":
        return f"{line}, from the prefix cache as without it."
    return f"{line}; whether the prefix cache changes it is unknown: {cached.measured}."
