"""How a rule is judged: one finding per run, put together into one check per point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from bench.report.model import Check

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.report.measurement import Measurement

Verdict: TypeAlias = Literal["kept", "broken", "unknown"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What one run shows about a rule at one point.

    Attributes:
        verdict: "kept", "broken", or "unknown": the needed observation is missing.
        measured, expected: what was compared, in words and figures.
        advice: what to do when it is not kept.
    """

    verdict: Verdict
    measured: str
    expected: str
    advice: str = ""


def per_point(rule: str, judge: Callable[[Measurement, int, int], Finding], measurement: Measurement) -> list[Check]:
    """One check per point that was begun: broken if it is broken in any run, unknown if it is unknown in one.

    Args:
        rule: its name.
        judge: the finding of (measurement, run, point).
        measurement: sorted evidence.
    """
    return [
        together(rule, point, {run: judge(measurement, run, point) for run in measurement.runs_of(point)})
        for point in measurement.begun
    ]


def together(rule: str, point: int | None, findings: dict[int, Finding]) -> Check:
    """Puts the findings of several runs together; only the runs that decide the verdict are named.

    Args:
        rule: its name.
        point: index of the point, None for a rule about the whole run.
        findings: by run, at least one.
    """
    verdicts = {finding.verdict for finding in findings.values()}
    verdict: Verdict = "broken" if "broken" in verdicts else "unknown" if "unknown" in verdicts else "kept"
    deciding = {run: finding for run, finding in findings.items() if finding.verdict == verdict}

    def told(text: Callable[[Finding], str]) -> str:
        texts = {run: text(finding) for run, finding in deciding.items()}
        if len(deciding) == len(findings) and len(set(texts.values())) == 1:
            return next(iter(texts.values()))
        return "; ".join(f"run {run}: {text}" for run, text in texts.items())

    return Check(
        rule=rule,
        point=point,
        verdict=verdict,
        measured=told(lambda finding: finding.measured),
        expected=told(lambda finding: finding.expected),
        advice="" if verdict == "kept" else next(iter(deciding.values())).advice,
    )
