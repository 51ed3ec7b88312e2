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
    repeated = checks[REPEATED]
    if broken:
        said = "no: " + "; ".join(f"{check.rule}: {check.measured}" for check in broken)
    elif repeated.verdict == "unknown":
        said = repeated.measured if repeated.measured.startswith("not applicable") else f"unknown: {repeated.measured}"
    else:
        said = f"yes: {repeated.measured}"
        if CACHED in checks:
            known = checks[CACHED].verdict == "kept"
            said += f"; from the cache as without it{'' if known else ': unknown'}: {checks[CACHED].measured}"
    return f"The same request gets the same answer: {said}."
