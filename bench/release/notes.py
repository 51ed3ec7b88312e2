"""The section of a release's notes: what was measured, against which claims, and how to check it.

Whatever comes from a report is escaped so that it stays text, as in `report.md`, and mentions nobody on GitHub.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from bench.errors import UsageError
from bench.explain.compare import words as says
from bench.explain.search.show import measure_of, proof_line
from bench.release.bars import bars
from bench.release.body import BEGIN, END
from bench.release.series import rows_of
from bench.report.render import words
from bench.report.render.drawings import BUDGET_S
from bench.report.render.environments import markdown_environment, plain
from bench.report.render.verdict import headline
from bench.report.verify import PRODUCT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from bench.release.former import Since
    from bench.release.published import Published
    from bench.report.model import ClaimVerdict, PointReport

RELEASE_ASSETS: Final = "/releases/download/"
"""In every address at which a GitHub server serves the assets of a release."""
_COMMIT: Final = re.compile(r"[0-9a-f]{7,64}")

SETTLED: Final = ("reproduced", "consistent with", "not reproduced")
"""Verdicts that hold for a stated assumption; the others say nothing of the engine."""


class Own(str):
    """Markdown that this module writes itself: addresses, commands, the picture of letters."""

    __slots__ = ()


def escaped(value: object) -> str:
    """A value as Markdown that shows just its text; ours as it is."""
    if isinstance(value, Own):
        return str(value)
    # A mention needs the letters right after the sign: an empty comment between them shows nothing and notifies nobody.
    return plain(value).replace("@", "@<!-- -->")


@dataclass(frozen=True, slots=True)
class Asset:
    """A file beside the notes.

    Attributes:
        path: where it lies.
        sha256: in hex.
        media_type: of its content.
    """

    path: Path
    sha256: str
    media_type: str

    @property
    def name(self) -> str:
        """Of the file, here and in the release."""
        return self.path.name

    @property
    def size(self) -> int:
        """Bytes."""
        return self.path.stat().st_size


@dataclass(frozen=True, slots=True)
class Contents:
    """What a release gets.

    Attributes:
        reports: verified.
        since: by stem, what changed since a former release.
        packed: one ZIP file for each report, in the order of the reports.
        picture: the SVG file; None where there is nothing to draw.
        sums: the file with the hashes of all others.
    """

    reports: tuple[Published, ...]
    since: Mapping[str, Since]
    packed: tuple[Asset, ...]
    picture: Asset | None
    sums: Asset

    @property
    def assets(self) -> tuple[Asset, ...]:
        """All files, that with the hashes last: when it is there, so are the others."""
        return (*self.packed, *([self.picture] if self.picture else []), self.sums)


@dataclass(frozen=True, slots=True)
class Links:
    """Where the assets will be.

    Attributes:
        base: address of the folder that they are in; None where nobody knows yet: they are then beside the notes.
    """

    base: str | None = None

    @classmethod
    def to(cls, base: str) -> Links:
        """Checks an address from the command line.

        Raises:
            UsageError: it is none that can stand in Markdown and in a shell command.
        """
        parts = urlsplit(base)
        strange = set(base) & set(" \t\n\"'`\\<>()$;&|{}*!?#")
        if parts.scheme not in ("http", "https") or not parts.hostname or strange or not base.isascii():
            raise UsageError(
                f"--base-url-of-assets {base!r} is no plain address of a folder.",
                remedy="E.g. https://github.com/OWNER/NAME/releases/download/TAG",
            )
        return cls(base.rstrip("/"))

    @property
    def shows_svg(self) -> bool:
        """Whether an SVG there is shown as an image; see `bench.release.bars`."""
        return self.base is None or RELEASE_ASSETS not in self.base

    def of(self, name: str) -> Own:
        """Address of an asset."""
        return Own(name if self.base is None else f"{self.base}/{name}")


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of the table of operating points: a point, or one more claim on the point above.

    Attributes:
        point: None for a further claim on the same point.
        claim: None for a point that no comparable claim is about.
    """

    point: PointReport | None
    claim: ClaimVerdict | None


@dataclass(frozen=True, slots=True)
class Section:
    """One report in the notes.

    Attributes:
        it: the report.
        since: what changed since a former one; None where none was named.
    """

    it: Published
    since: Since | None

    @property
    def rows(self) -> tuple[TableRow, ...]:
        """Operating points with the claims on them."""
        return tuple(self._rows())

    @property
    def incomparable(self) -> int:
        """Claims that this measurement can say nothing about."""
        return sum(claim.verdict == "not comparable" for claim in self.it.report.claims)

    @property
    def picture(self) -> Own:
        """p95 as lines of letters; empty where there is none."""
        return Own(bars(rows_of(self.it.report), BUDGET_S, f"{BUDGET_S:g} s"))

    def _rows(self) -> Iterator[TableRow]:
        report = self.it.report
        places = {claim.id: claim.point.label for claim in self.it.claims}
        judged = [claim for claim in report.claims if claim.verdict != "not comparable"]
        for point in report.points:
            claims = [claim for claim in judged if places[claim.id] == point.label]
            yield TableRow(point, claims[0] if claims else None)
            yield from (TableRow(None, claim) for claim in claims[1:])


_ENVIRONMENT: Final = markdown_environment(
    "bench.release",
    words=words,
    says=says,
    headline=headline,
    proof_line=proof_line,
    measure_of=measure_of,
    own=Own,
    settled=SETTLED,
).overlay(finalize=escaped)


def render_notes(contents: Contents, links: Links) -> str:
    """Writes the section, between the marks that `bench.release.body` finds it by.

    Returns:
        Markdown: the same contents and links always give the same bytes.
    """
    reports = contents.reports
    return _ENVIRONMENT.get_template("notes.md.j2").render(
        begin=Own(BEGIN),
        end=Own(END),
        sections=[Section(report, contents.since.get(report.stem)) for report in reports],
        contents=contents,
        signers=dict(zip((asset.name for asset in contents.packed), reports, strict=True)),
        links=links,
        unlisted=list(dict.fromkeys(report.key for report in reports if not report.known)),
        version=version(PRODUCT),
        commits=_commits(contents),
    )


def _commits(contents: Contents) -> tuple[str, ...]:
    """Which commits of this version draw these reports' pages as they are; empty where another version made one."""
    producers = [report.report.producer for report in contents.reports]
    if any((producer.name, producer.version) != (PRODUCT, version(PRODUCT)) for producer in producers):
        return ()
    return tuple(dict.fromkeys(each.commit for each in producers if each.commit and _COMMIT.fullmatch(each.commit)))
