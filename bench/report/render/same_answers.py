"""Whether the same request got the same answer, in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.report.rules_probe import CACHED, REPEATED, RULES

if TYPE_CHECKING:
    from bench.report.model import Report


def same_answers(report: Report) -> str:
    """The line; empty for a report from before anybody asked."""
    checks = {check.rule: check for check in report.checks if check.rule in RULES}
    if not checks:
        return ""
    broken = [check for check in checks.values() if check.verdict == "broken"]
    repeated, cached = checks[REPEATED], checks.get(CACHED)
    if broken:
        said = f"no, {'; '.join(f'{check.rule}: {check.measured}' for check in broken)}"
    elif repeated.verdict == "unknown":
        said = f"unknown, {repeated.measured}"
    else:
        said = f"yes, {repeated.measured}"
        if cached is not None:
            said += (
                f". From the cache as without it: {'yes' if cached.verdict == 'kept' else 'unknown'}, {cached.measured}"
            )
    return f"The same request gets the same answer: {said}."
