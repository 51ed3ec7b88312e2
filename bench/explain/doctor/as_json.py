"""`just doctor --json`: the diagnosis for scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.explain.doctor.examine import verdict_of

if TYPE_CHECKING:
    from bench.explain.doctor.diagnose import Diagnosis, Finding
    from bench.explain.doctor.examine import Examined
    from bench.explain.doctor.start import Quote

FORMAT = "streamproof-doctor/1"
"""Changes when a field's meaning does."""


def as_json(logs: list[Examined], exit_code: int) -> dict[str, object]:
    """All logs."""
    return {"format": FORMAT, "exit_code": exit_code, "logs": [_log(log) for log in logs]}


def _log(log: Examined) -> dict[str, object]:
    return {
        "file": str(log.path),
        "verdict": log.verdict.value,
        "problem": log.problem or None,
        "advice": log.advice or None,
        "lines": log.lines,
        "starts": log.starts,
        "diagnoses": [_diagnosis(diagnosis) for diagnosis in log.diagnoses],
    }


def _diagnosis(diagnosis: Diagnosis) -> dict[str, object]:
    return {
        "start": diagnosis.number,
        "lines": [diagnosis.first_line, diagnosis.last_line],
        "verdict": verdict_of(diagnosis).value,
        "vllm": diagnosis.version,
        "outcome": diagnosis.outcome,
        "stage": diagnosis.stage,
        "reached": diagnosis.reached,
        "stopped_by_request": diagnosis.stopped,
        "allocation": diagnosis.allocation,
        "cause": None if diagnosis.finding is None else _finding(diagnosis.finding),
        "quotes": [_quote(quote) for quote in diagnosis.quotes],
        "downgrades": [_finding(finding) for finding in diagnosis.downgrades],
        "notes": [_finding(finding) for finding in diagnosis.notes],
        "failed_requests": len(diagnosis.failed_requests),
        "values": diagnosis.values,
    }


def _finding(finding: Finding) -> dict[str, object]:
    return {
        "id": finding.entry.id,
        "kind": finding.entry.kind,
        "stage": finding.entry.stage,
        "title": finding.title,
        "cause": finding.cause,
        "consequence": finding.consequence,
        "is_not": list(finding.is_not),
        "evidence": [_quote(quote) for quote in finding.evidence],
        "fixes": [
            {"say": remedy.say, "run": list(remedy.run), "since": remedy.fix.since, "before": remedy.fix.before}
            for remedy in finding.remedies
        ],
        "references": list(finding.entry.references),
    }


def _quote(quote: Quote) -> dict[str, object]:
    return {"line": quote.line, "text": quote.text, "count": quote.count}
