"""The doctor as the run calls it: an engine of ours died, and its error shall name the diagnosis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.explain.doctor.examine import examine

if TYPE_CHECKING:
    from pathlib import Path


def known_cause(log: Path) -> str:
    """The cause in a few words, without the log's path: for a record that goes into a report.

    Args:
        log: the engine's whole log.

    Returns:
        " [title; stage]" with a blank in front; empty where the cause is not known. Never raises.
    """
    examined = examine(log)
    finding = examined.diagnoses[-1].finding if examined.diagnoses else None
    return "" if finding is None else f" [{finding.title}; {examined.diagnoses[-1].stage}]"


def diagnosis_of(log: Path) -> str:
    """What the log of an engine that died, or did not get ready, shows: for the remedy of an error.

    Args:
        log: the engine's whole log.

    Returns:
        Sentences that end with a blank: the diagnosis with its first fix where the cause is known, else how to see
        more. Never raises: a log that cannot be read gives an empty string, since it must not hide the error itself.
    """
    examined = examine(log)
    if not examined.diagnoses:
        return ""
    newest = examined.diagnoses[-1]
    if newest.finding is None:
        return f"No known cause fits (just doctor {log} quotes the lines). "
    fix = newest.finding.remedies[0] if newest.finding.remedies else None
    do = f" {fix.say} ({fix.run[0]})" if fix and fix.run else f" {fix.say}" if fix else ""
    return f"Diagnosis: {newest.finding.title}, stage {newest.stage}.{do} More: just doctor {log}. "
