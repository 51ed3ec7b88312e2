"""Reports that are to be published: verified first, and refused where a stranger would refuse them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from bench.errors import Exit, StreamproofError, UsageError
from bench.release.archive import stem_of
from bench.report import folder_files as files
from bench.report.folder_evidence import parse_recipe
from bench.report.keys import key_id, parse_public
from bench.report.verify import verify
from bench.report.verify_show import ALLOW_LIST

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from bench.release.bring import Here
    from bench.report.keys import TrustedKey
    from bench.report.model import Report
    from bench.report.trust.signatory import Signatory
    from recipes.schema import Claim


class NotPublishableError(StreamproofError):
    """The report is verified, but it proves nothing: partial or invalid."""

    exit_code: ClassVar[Exit] = Exit.INVALID


@dataclass(frozen=True, slots=True)
class Published:
    """A verified report.

    Attributes:
        here: where it lies, and what the user calls it.
        report: what it says.
        claims: of its recipe, with their points and limits.
        key: whose signature it bears.
        known: every checkout of this project trusts that signer; of any other the notes say where to get the key.
        stem: name of its ZIP file without ".zip".
        anyway: why it proves nothing and is published all the same, a sentence each; empty for any other.
    """

    here: Here
    report: Report
    claims: tuple[Claim, ...]
    key: Signatory
    known: bool
    stem: str
    anyway: tuple[str, ...]

    @property
    def judged(self) -> tuple[Claim, ...]:
        """The claims that this measurement can say something about."""
        others = {claim.id for claim in self.report.claims if claim.verdict == "not comparable"}
        return tuple(claim for claim in self.claims if claim.id not in others)


def read_reports(
    reports: Sequence[Here],
    trusted: Mapping[str, TrustedKey],
    *,
    listed: Collection[str] = (),
    anyway: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> tuple[Published, ...]:
    """Verifies reports, as `just verify` does.

    Args:
        reports: to be verified.
        trusted: keys by id.
        listed: ids of the keys that every checkout trusts: `listed_keys`.
        anyway: take a partial or invalid report too.
        say: told what is being done.

    Raises:
        UsageError: none, or one twice.
        StreamproofError: one is not verified.
        NotPublishableError: one is partial or invalid, and `anyway` is not given.
    """
    if not reports:
        raise UsageError("No report is named.", remedy="Name the folders of reports: reports/<target>/<time>-...")
    found: dict[str, Published] = {}
    for here in reports:
        say(f"verifying {here.name}")
        published = _read(here, trusted, listed, anyway=anyway)
        if published.stem in found:
            raise UsageError(
                f"{here.name} and {found[published.stem].here.name} are the same report.",
                remedy="Name each report once.",
            )
        found[published.stem] = published
    return tuple(found.values())


def _read(here: Here, trusted: Mapping[str, TrustedKey], listed: Collection[str], *, anyway: bool) -> Published:
    verified = verify(here.folder, trusted)
    if not verified.verified or verified.report is None or verified.key is None:
        reasons = "; ".join(f"{finding.file} {finding.reason}" for finding in verified.findings[:3])
        remedies = [finding.remedy for finding in verified.findings if finding.remedy][:1]
        raise StreamproofError(
            f"{here.name} is not verified, and whoever downloads it would refuse it: {reasons}.",
            remedy=" ".join([*remedies, f"See: just verify {here.name}"]),
        )
    report = verified.report
    faults = tuple(_faults(report))
    if faults and not anyway:
        raise NotPublishableError(
            f"{here.name} proves nothing: {' '.join(faults)}",
            remedy="Measure again. --anyway publishes it, and the notes then say this in bold.",
        )
    return Published(
        here=here,
        report=report,
        claims=tuple(parse_recipe((here.folder / files.RECIPE).read_bytes()).claims),
        key=verified.key,
        known=verified.key.key_id in listed or verified.key.origin.startswith(f"{ALLOW_LIST.name}/"),
        stem=stem_of(report, (here.folder / files.ATTESTATION).read_bytes()),
        anyway=faults,
    )


def listed_keys(allow_list: Path) -> frozenset[str]:
    """Ids of the public keys in an allow list."""
    return frozenset(key_id(parse_public(path.read_bytes(), str(path))) for path in allow_list.glob("*.pem"))


def _faults(report: Report) -> Iterator[str]:
    if report.partial:
        why = f": {report.partial_reason}" if report.partial_reason else ""
        yield f"It is partial{why}."
    if not report.valid:
        broken = dict.fromkeys(check.rule for check in report.checks if check.verdict == "broken")
        yield f"It breaks its own rules: {', '.join(broken)}."
