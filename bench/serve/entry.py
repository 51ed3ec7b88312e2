"""What the list shows of one folder: read as if somebody hostile had written it, in a process of its own.

Figures and verdicts are those of its own `report.json` until this server has verified it (`bench.serve.checker`); the
list says which is which. What leaves that process is small, however long the texts in a file are.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from pydantic import ValidationError

from bench.explain.ablate import words as ablation_words
from bench.explain.ablate.folder import PAGE as ABLATION_PAGE
from bench.explain.ablate.folder import SUMMARY
from bench.explain.ablate.outcome import Ablation
from bench.report import folder_files as files
from bench.report.apart import Bounds
from bench.report.model import SCHEMA_VERSION, Report
from bench.report.render.gpus import hardware
from bench.report.render.verdict import Headline, headline
from bench.report.verify_json import HostileJsonError, strict_loads
from bench.report.verify_work import PLACES_LIMIT
from bench.serve.beside import p95_cells
from bench.serve.hostile import RefusedFileError, Stamp, read_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from bench.report.render.tables import Cell

Kind: TypeAlias = Literal["report", "capacity", "frontier", "ablation", "ablation run"]
Validity: TypeAlias = Literal["valid", "invalid", "partial", "cannot be read", "not read yet"]
Verdict: TypeAlias = Literal[
    "reproduced", "not reproduced", "holds", "does not hold", "undecided", "nothing to compare", "none"
]

KINDS: Final[tuple[Kind, ...]] = ("report", "capacity", "frontier", "ablation", "ablation run")
VALIDITIES: Final[tuple[Validity, ...]] = ("valid", "invalid", "partial", "cannot be read", "not read yet")
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

READING: Final = Bounds(memory_bytes=1 << 30, cpu_s=10)
"""Of one folder. One of 2,000 points, as many as a report may have, takes 0.4 s and 90 MB."""
TEXT_LIMIT: Final = 300
"""Letters of a text."""
LINES_LIMIT: Final = 50
LINE_LIMIT: Final = 1_000
"""Lines of what a headline rests on, and letters of each."""


class UnreadableError(Exception):
    """What lies there is no report of this version; the message says why, in words for people."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A folder that holds a report or an ablation, from outside.

    Attributes:
        path: of it.
        place: below the served folder, as the file system has it.
        stamp: what its files look like.
        inside_ablation: whether it is one of the runs of an ablation.
    """

    path: Path
    place: str
    stamp: Stamp
    inside_ablation: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One report or ablation.

    Attributes:
        id: of its place; stands in addresses, so that no part of a path ever comes from one.
        path: its folder. place: the same below the served folder, made safe to show.
        stamp: what its files looked like before it was read.
        kind: what it is.
        page: name of the page that its maker left.
        title, target, hardware, started_at, fingerprint, made_by: as it says; empty where it says nothing.
        not_real: what its title must name.
        validity: what it says of itself.
        verdict: of its claims or searches, together.
        says: its headline; where it cannot be read, why.
        p95: of E2E by the label of its point.
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
    p95: Mapping[str, Cell]

    @property
    def comparable(self) -> bool:
        """Whether it is a report that could be read."""
        return self.kind != "ablation" and self.validity not in {"cannot be read", "not read yet"}


def id_of(place: str) -> str:
    """Of a place below the served folder."""
    return hashlib.sha256(os.fsencode(place)).hexdigest()[:16]


def read_entry(seen: Seen) -> Entry:
    """Reads what lies in a folder; what cannot be read says why.

    Raises:
        MemoryError: it wants more than there is.
    """
    try:
        if any(name == SUMMARY for name, *_ in seen.stamp):
            return _ablation(seen)
        return _report(seen)
    except (UnreadableError, RefusedFileError) as error:
        return unreadable(seen, str(error))
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001  whatever a stranger's file does, the list goes on
        return unreadable(seen, f"{type(error).__name__} while it was read")


def _report(seen: Seen) -> Entry:
    report = _parse(seen.path, files.REPORT, Report)
    if len(report.points) > PLACES_LIMIT:
        raise UnreadableError(f"it has {len(report.points):,} points; a report has at most {PLACES_LIMIT:,}")
    kind: Kind = "ablation run" if seen.inside_ablation else "report"
    if report.searches:
        kind = "capacity" if report.searches[0].question.axis == "streams" else "frontier"
    return Entry(
        id=id_of(seen.place),
        path=seen.path,
        place=shown_place(seen.place),
        stamp=seen.stamp,
        kind=kind,
        page=files.PAGE,
        title=_cut(report.title),
        target=_cut(report.target),
        hardware=_cut(_hardware(seen.path, report)),
        started_at=_cut(report.started_at),
        fingerprint=_cut(report.fingerprint),
        made_by=_cut(f"{report.producer.name} {report.producer.version}"),
        not_real=_lines(report.not_real, TEXT_LIMIT),
        validity="partial" if report.partial else "valid" if report.valid else "invalid",
        verdict=_verdict(report),
        says=_short(headline(report)),
        p95={_cut(label): each for label, each in p95_cells(report).items()},
    )


def _ablation(seen: Seen) -> Entry:
    ablation = _parse(seen.path, SUMMARY, Ablation)
    return Entry(
        id=id_of(seen.place),
        path=seen.path,
        place=shown_place(seen.place),
        stamp=seen.stamp,
        kind="ablation",
        page=ABLATION_PAGE,
        title=_cut(ablation.title),
        target=_cut(ablation.target),
        hardware=UNKNOWN,
        started_at="",
        fingerprint="",
        made_by="",
        not_real=_lines(ablation.not_real, TEXT_LIMIT),
        validity="valid" if ablation.complete else "partial",
        verdict="none",
        says=_short(Headline("plain", ablation_words.headline(ablation))),
        p95={},
    )


def unreadable(seen: Seen, why: str) -> Entry:
    """What is shown of a folder that cannot be read."""
    return _nothing(seen, "cannot be read", Headline("bad", f"Cannot be read: {why}."))


def unread(seen: Seen) -> Entry:
    """What is shown of a folder until it is read."""
    return _nothing(seen, "not read yet", Headline("plain", "Not read yet by this server."))


def _nothing(seen: Seen, validity: Validity, says: Headline) -> Entry:
    return Entry(
        id=id_of(seen.place),
        path=seen.path,
        place=shown_place(seen.place),
        stamp=seen.stamp,
        kind="report",
        page=files.PAGE,
        title="",
        target=UNKNOWN,
        hardware=UNKNOWN,
        started_at="",
        fingerprint="",
        made_by="",
        not_real=(),
        validity=validity,
        verdict="none",
        says=_short(says),
        p95={},
    )


def _cut(text: str, most: int = TEXT_LIMIT) -> str:
    return text if len(text) <= most else f"{text[:most]}..."


def _lines(lines: Iterable[str], most: int) -> tuple[str, ...]:
    return tuple(_cut(line, most) for line in islice(lines, LINES_LIMIT))


def _short(said: Headline) -> Headline:
    return Headline(said.tone, _cut(said.says, LINE_LIMIT), _lines(said.details, LINE_LIMIT))


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
