"""What the list shows of one folder: read as if somebody hostile had written it.

Figures and verdicts are those of its own `report.json` until this server has verified it (`bench.serve.checker`); the
list says which is which.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from pydantic import ValidationError

from bench.explain.ablate import words as ablation_words
from bench.explain.ablate.folder import PAGE as ABLATION_PAGE
from bench.explain.ablate.folder import SUMMARY
from bench.explain.ablate.outcome import Ablation
from bench.report import folder_files as files
from bench.report.model import SCHEMA_VERSION, Report
from bench.report.render.gpus import hardware
from bench.report.render.verdict import Headline, headline
from bench.report.verify_json import HostileJsonError, strict_loads
from bench.serve.hostile import RefusedFileError, Stamp, read_file, stamp_of

if TYPE_CHECKING:
    from pathlib import Path

Kind: TypeAlias = Literal["report", "capacity", "frontier", "ablation", "ablation run"]
Validity: TypeAlias = Literal["valid", "invalid", "partial", "cannot be read"]
Verdict: TypeAlias = Literal[
    "reproduced", "not reproduced", "holds", "does not hold", "undecided", "nothing to compare", "none"
]

KINDS: Final[tuple[Kind, ...]] = ("report", "capacity", "frontier", "ablation", "ablation run")
VALIDITIES: Final[tuple[Validity, ...]] = ("valid", "invalid", "partial", "cannot be read")
VERDICTS: Final[tuple[Verdict, ...]] = (
    "reproduced",
    "not reproduced",
    "holds",
    "does not hold",
    "undecided",
    "nothing to compare",
    "none",
)
UNKNOWN: Final = "unknown"


class UnreadableError(Exception):
    """What lies there is no report of this version; the message says why, in words for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One report or ablation.

    Attributes:
        id: of its place; stands in addresses, so that no part of a path ever comes from one.
        path: its folder. place: the same below the served folder, made safe to show.
        stamp: what its files looked like when it was read.
        kind: what it is.
        page: name of the page that its maker left.
        title, target, hardware, started_at, fingerprint, made_by: as it says; empty where it says nothing.
        not_real: what its title must name.
        validity: what it says of itself.
        verdict: of its claims or searches, together.
        says: its headline; where it cannot be read, why.
        report: all of it; None where it is none.
    """

    id: str
    path: Path
    place: str
    stamp: Stamp
    kind: Kind
    page: str
    title: str
    target: str
    hardware: str
    started_at: str
    fingerprint: str
    made_by: str
    not_real: tuple[str, ...]
    validity: Validity
    verdict: Verdict
    says: Headline
    report: Report | None


def id_of(place: str) -> str:
    """Of a place below the served folder."""
    return hashlib.sha256(os.fsencode(place)).hexdigest()[:16]


def read_entry(path: Path, place: str, *, inside_ablation: bool) -> Entry:
    """Reads what lies in a folder that holds a report or an ablation; one that cannot be read says why.

    Args:
        path: the folder.
        place: below the served folder, as the file system has it.
        inside_ablation: whether it is one of the runs of an ablation.
    """
    stamp = stamp_of(path)
    try:
        if any(name == SUMMARY for name, *_ in stamp):
            return _ablation(path, place, stamp)
        return _report(path, place, stamp, inside_ablation=inside_ablation)
    except (UnreadableError, RefusedFileError) as error:
        return _unreadable(path, place, stamp, str(error))
    except Exception as error:  # noqa: BLE001  whatever a stranger's file does, the list goes on
        return _unreadable(path, place, stamp, f"{type(error).__name__} while it was read")


def _report(path: Path, place: str, stamp: Stamp, *, inside_ablation: bool) -> Entry:
    report = _parse(path, files.REPORT, Report)
    kind: Kind = "ablation run" if inside_ablation else "report"
    if report.searches:
        kind = "capacity" if report.searches[0].question.axis == "streams" else "frontier"
    return Entry(
        id=id_of(place),
        path=path,
        place=shown_place(place),
        stamp=stamp,
        kind=kind,
        page=files.PAGE,
        title=report.title,
        target=report.target,
        hardware=_hardware(path, report),
        started_at=report.started_at,
        fingerprint=report.fingerprint,
        made_by=f"{report.producer.name} {report.producer.version}",
        not_real=report.not_real,
        validity="partial" if report.partial else "valid" if report.valid else "invalid",
        verdict=_verdict(report),
        says=headline(report),
        report=report,
    )


def _ablation(path: Path, place: str, stamp: Stamp) -> Entry:
    ablation = _parse(path, SUMMARY, Ablation)
    return Entry(
        id=id_of(place),
        path=path,
        place=shown_place(place),
        stamp=stamp,
        kind="ablation",
        page=ABLATION_PAGE,
        title=ablation.title,
        target=ablation.target,
        hardware=UNKNOWN,
        started_at="",
        fingerprint="",
        made_by="",
        not_real=ablation.not_real,
        validity="valid" if ablation.complete else "partial",
        verdict="none",
        says=Headline("plain", ablation_words.headline(ablation)),
        report=None,
    )


def _unreadable(path: Path, place: str, stamp: Stamp, why: str) -> Entry:
    return Entry(
        id=id_of(place),
        path=path,
        place=shown_place(place),
        stamp=stamp,
        kind="report",
        page=files.PAGE,
        title="",
        target=UNKNOWN,
        hardware=UNKNOWN,
        started_at="",
        fingerprint="",
        made_by="",
        not_real=(),
        validity="cannot be read",
        verdict="none",
        says=Headline("bad", f"Cannot be read: {why}."),
        report=None,
    )


def shown_place(place: str) -> str:
    """A path from outside, safe to show: no control character, no half character, not too long."""
    text = ascii(place)[1:-1] if not place.isprintable() else place
    return text if len(text) <= 200 else f"{text[:200]}..."


def _parse(path: Path, name: str, model: type[Any]) -> Any:  # noqa: ANN401  one of the two models
    try:
        stored = strict_loads(read_file(path, name))
    except HostileJsonError as error:
        raise UnreadableError(f"{name}: {error}") from error
    written = stored.get("schema_version") if isinstance(stored, dict) else None
    if written != SCHEMA_VERSION:
        raise UnreadableError(f"{name} has the schema {str(written)[:20]!r}; this version reads {SCHEMA_VERSION!r}")
    try:
        return model.model_validate(stored)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise UnreadableError(f"{name}: {where[:120]} is not right") from error


def _hardware(path: Path, report: Report) -> str:
    """The GPUs as `environment.json` names them; "CPU" where the title says so."""
    try:
        environment = strict_loads(read_file(path, files.ENVIRONMENT))
    except (RefusedFileError, HostileJsonError):
        environment = {}
    named = hardware(environment) if isinstance(environment, dict) else ""
    return named or ("CPU" if "CPU" in report.not_real else UNKNOWN)


def _verdict(report: Report) -> Verdict:
    """Claims and searches in one word: what does not hold weighs most, then what is undecided."""
    if report.partial or not report.valid:
        return "none"
    if report.searches:
        if any(outcome.answer == "undecided" for outcome in report.searches):
            return "undecided"
        return "holds" if all(outcome.found for outcome in report.searches) else "does not hold"
    verdicts = {claim.verdict for claim in report.claims}
    if "not reproduced" in verdicts:
        return "not reproduced"
    if verdicts & {"reproduced", "consistent with"}:
        return "reproduced"
    return "undecided" if "not enough samples" in verdicts else "nothing to compare"
