"""Verifies a report without an engine, and treats it as hostile until it has passed.

In this order, because each step makes the next one safe: the files (names, kinds, sizes), the signature, the digests,
the evidence, the figures and verdicts computed again from it, the signatures that go with it, the pages drawn again. A
step that fails ends the verification: whatever came after it would rest on nothing.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from bench.errors import Exit, StreamproofError
from bench.report import folder_files as files
from bench.report import sign
from bench.report.build import build_report
from bench.report.folder_evidence import EvidenceError, evidence_of
from bench.report.model import SCHEMA_VERSION, Report
from bench.report.render.html import render_page
from bench.report.render.markdown import render_markdown
from bench.report.trust.companions import NO_TEST_RESULT, check_companions
from bench.report.verify_bounds import CPU_S, MEMORY_BYTES, OutOfTimeError, cpu_time, memory_for
from bench.report.verify_bundle import check_attestation
from bench.report.verify_compare import differences
from bench.report.verify_files import Finding, HostileFolder, RefusedError, shown
from bench.report.verify_json import HostileJsonError, strict_loads
from bench.report.verify_lines import check_observations, check_recipe_text, check_values
from bench.report.verify_parquet import read_hostile_records
from bench.report.verify_text import printable
from bench.report.verify_work import check_work

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from bench.report.evidence import Evidence
    from bench.report.keys import TrustedKey
    from bench.report.trust.signatory import Signatory
    from bench.report.trust.validity import Signed
    from bench.report.verify_bundle import Attested

FILES: Final = "files"
SIGNATURE: Final = "signature"
DIGESTS: Final = "digests"
EVIDENCE: Final = "evidence"
FIGURES: Final = "figures and verdicts"
COMPANIONS: Final = "test result and model signature"
PAGES: Final = "pages"
STEPS: Final = (FILES, SIGNATURE, DIGESTS, EVIDENCE, FIGURES, COMPANIONS, PAGES)

PRODUCT: Final = "streamproof"


@dataclass(frozen=True, slots=True)
class Verification:
    """What came of it.

    Attributes:
        folder: what was verified, as it was named.
        passed: the steps that found nothing, in order.
        findings: why the report is refused; empty when it is verified.
        key: whose signature it bears; None when no trusted signer was found.
        signed: when it was signed; None where nobody says.
        report: the report, only when every figure and verdict in it was computed again and found the same.
        notes: what was not checked, and why.
        evidence: what `report` was computed from; None where that is.
    """

    folder: str
    passed: tuple[str, ...]
    findings: tuple[Finding, ...]
    key: Signatory | None
    signed: Signed | None
    report: Report | None
    notes: tuple[str, ...]
    evidence: Evidence | None = None

    @property
    def verified(self) -> bool:
        """Whether the report stands."""
        return not self.findings

    @property
    def exit_code(self) -> Exit:
        """0 for a report that is verified, whatever it says; 1 for one that is refused."""
        return Exit.OK if self.verified else Exit.FAILURE


def verify(folder: Path, trusted: Mapping[str, TrustedKey], *, named: str = "") -> Verification:
    """Checks everything that can be checked without an engine.

    Args:
        folder: the report's folder; anybody may have made it.
        trusted: who is trusted: `bench.report.keys.trusted_keys`.
        named: what the user named, where that is not the folder.
    """
    check = _Check()
    findings: tuple[Finding, ...] = ()
    try:
        with HostileFolder(folder) as opened:
            check.run(opened, trusted)
    except RefusedError as error:
        findings = error.findings
    computed = FIGURES in check.passed
    return Verification(
        folder=named or str(folder),
        passed=tuple(check.passed),
        findings=findings,
        key=check.key,
        signed=check.signed,
        report=check.report if computed else None,
        notes=tuple(check.notes),
        evidence=check.evidence if computed else None,
    )


def recompute(folder: Path) -> tuple[Evidence, Report]:
    """What the evidence in a folder gives, whoever made it and whatever its `report.json` says.

    No signature is looked at, and no other file; all else is as hostile, and as bounded, as in `verify`.

    Args:
        folder: the report's folder; anybody may have made it.

    Raises:
        RefusedError: there is no such evidence, or none that a measurement could have left.
    """
    with HostileFolder(folder) as opened:
        contents = {name: opened.read(name) for name in files.EVIDENCE}
    with bounded():
        evidence = read_evidence(contents)
        with _computing():
            return evidence, build_report(evidence)


def refused(named: str, findings: tuple[Finding, ...]) -> Verification:
    """What came of a report that was refused before it was in a folder.

    Args:
        named: what the user named.
        findings: why.
    """
    return Verification(folder=named, passed=(), findings=findings, key=None, signed=None, report=None, notes=())


@dataclass(slots=True)
class _Check:
    """A verification under way: what is known so far."""

    passed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    key: Signatory | None = None
    signed: Signed | None = None
    report: Report | None = None
    evidence: Evidence | None = None

    def run(self, folder: HostileFolder, trusted: Mapping[str, TrustedKey]) -> None:
        names = folder.names()
        self.passed.append(FILES)
        attested = check_attestation(folder.read(files.ATTESTATION), folder.read(files.SIGNER), trusted)
        self.key, self.signed = attested.key, attested.signed
        self.notes += attested.notes
        self.passed.append(SIGNATURE)
        contents = _check_digests(folder, names, attested)
        self.passed.append(DIGESTS)
        with bounded():
            self._compute(folder, names, contents, attested, trusted)

    def _compute(
        self,
        folder: HostileFolder,
        names: tuple[str, ...],
        contents: dict[str, bytes],
        attested: Attested,
        trusted: Mapping[str, TrustedKey],
    ) -> None:
        self.evidence = evidence = read_evidence(contents)
        self.passed.append(EVIDENCE)
        self.report = _check_figures(contents[files.REPORT], evidence, attested)
        self.passed.append(FIGURES)
        notes = check_companions(
            folder,
            names,
            attested,
            report=self.report,
            evidence=evidence,
            trusted=trusted,
            other_version=_other_version(evidence),
        )
        self.notes += notes
        if NO_TEST_RESULT not in notes:
            self.passed.append(COMPANIONS)
        self._check_pages(contents, self.report, evidence)

    def _check_pages(self, contents: Mapping[str, bytes], report: Report, evidence: Evidence) -> None:
        other = _other_version(evidence)
        if other:
            self.notes.append(f"report.md and report.html were not compared with report.json, nor looked at. {other}")
            return
        with _computing():
            drawn = {
                files.MARKDOWN: render_markdown(report, evidence.observations),
                files.PAGE: render_page(report, evidence),
            }
        changed = [name for name, text in drawn.items() if contents[name] != text.encode()]
        if changed:
            remedy = f"Unless it was edited, another commit of this version drew it: {report.producer.commit}."
            raise RefusedError(*(Finding(name, "does not show what report.json says", remedy) for name in changed))
        self.passed.append(PAGES)


def _check_digests(folder: HostileFolder, names: tuple[str, ...], attested: Attested) -> dict[str, bytes]:
    """Reads every file once: what is used later is what was hashed here. Logs are hashed and not kept."""
    present = set(names) - set(files.UNSIGNED)
    findings = [Finding(shown(name), "is missing, but was signed") for name in attested.digests.keys() - present]
    findings += [Finding(name, "is not among the signed files") for name in present - attested.digests.keys()]
    needed = set(files.EVIDENCE + files.RENDERED)
    findings += [Finding(name, "is missing") for name in needed - present - attested.digests.keys()]
    contents: dict[str, bytes] = {}
    for name in sorted(present & attested.digests.keys()):
        if name in needed:
            contents[name] = folder.read(name)
            digest = files.sha256(contents[name])
        else:
            digest = folder.sha256(name)
        if digest != attested.digests[name]:
            findings.append(Finding(name, "was changed after it was signed: its SHA-256 is another one"))
    if findings:
        raise RefusedError(*sorted(findings, key=lambda finding: finding.file))
    return contents


def read_evidence(contents: dict[str, bytes]) -> Evidence:
    """The evidence; its records, most of a large report, are in memory once only.

    Args:
        contents: of the files of evidence, by name; the records are taken out. Anybody may have made them.

    Raises:
        RefusedError: it is none that a measurement could have left.
    """
    records = read_hostile_records(contents.pop(files.RECORDS))
    check_recipe_text(contents[files.RECIPE])
    check_observations(contents[files.OBSERVATIONS])
    try:
        evidence = evidence_of(
            contents[files.RECIPE], contents[files.ENVIRONMENT], contents[files.OBSERVATIONS], records
        )
    except EvidenceError as error:
        raise RefusedError(Finding(error.file, error.reason)) from error
    with _computing():
        check_values(evidence.recipe, evidence.environment)
        check_work(evidence)
    return evidence


def _check_figures(raw: bytes, evidence: Evidence, attested: Attested) -> Report:
    """The report, when it is the one that the evidence gives."""
    try:
        stored = strict_loads(raw)
    except HostileJsonError as error:
        raise RefusedError(Finding(files.REPORT, f"cannot be read: {error}")) from error
    written = stored.get("schema_version") if isinstance(stored, dict) else None
    if written != SCHEMA_VERSION:
        raise RefusedError(
            Finding(
                files.REPORT,
                f"has the schema {str(written)[:20]!r}; this version of {PRODUCT} reads {SCHEMA_VERSION!r}",
                f"Verify it with the version of {PRODUCT} that made it.",
            )
        )
    with _computing():
        computed = build_report(evidence)
    different = differences(stored, computed.model_dump(mode="json"))
    if different:
        remedy = _other_version(evidence)
        raise RefusedError(*(Finding(files.REPORT, text, remedy) for text in different))
    if files.canonical_json(stored) != raw:
        raise RefusedError(Finding(files.REPORT, "is not in the form that streamproof writes: it was edited"))
    report = Report.model_validate(stored)
    said = sign.predicate(report, str(attested.predicate.get("signedAt")))
    if differences(attested.predicate, said):
        raise RefusedError(Finding(files.ATTESTATION, "its summary says something else than report.json"))
    return report


@contextmanager
def _computing() -> Iterator[None]:
    """Whatever made-up evidence does to our arithmetic is a refusal, never a traceback."""
    try:
        yield
    except (RefusedError, MemoryError):
        raise
    except StreamproofError as error:
        raise RefusedError(Finding(files.RECORDS, f"gives no report: {error.message}")) from error
    except Exception as error:
        reason = f"gives no report: {type(error).__name__} while it was computed again"
        raise RefusedError(Finding(files.RECORDS, reason)) from error


@contextmanager
def bounded() -> Iterator[None]:
    """No evidence takes more memory and time than this, whatever it does.

    Raises:
        RefusedError: it would.
    """
    try:
        with memory_for(MEMORY_BYTES), cpu_time(CPU_S):
            yield
    except MemoryError as error:
        reason = f"cannot be computed again in {MEMORY_BYTES >> 30} GiB of memory; a report needs far less"
        raise RefusedError(Finding(files.RECORDS, reason)) from error
    except OutOfTimeError as error:
        reason = f"cannot be computed again in {CPU_S / 60:.0f} minutes of CPU time; a report needs far less"
        raise RefusedError(Finding(files.RECORDS, reason)) from error


def _other_version(evidence: Evidence) -> str:
    """What to do where another version than this one made the report; empty where this one did."""
    made, own = evidence.producer, version(PRODUCT)
    if (made.name, made.version) == (PRODUCT, own):
        return ""
    maker = printable(f"{made.name} {made.version}", 80)
    return f"{maker} made the report and this is {PRODUCT} {own}: verify it with that version."
