"""The report's verdicts as in-toto's test result, for tools and policies that know nothing of us.

Predicate `https://in-toto.io/attestation/test-result/v0.1`,
https://github.com/in-toto/attestation/blob/main/spec/predicates/test-result.md. Its subjects are what was tested: the
engine's image, the checkpoint, the recipe. What has no digest is left out: a server of somebody else's tells none, and
an engine that runs as a process has no image. Tests are the claims that the recipe was judged by, and the rules that a
measurement must keep.

It names its report by the digest of `report.json`, in an extension field as in-toto's parsing rules allow, and the
report's own attestation signs this one as a file among the others: neither can be put beside another report.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from bench.errors import Exit
from bench.report import folder_files as files
from bench.report import sign
from bench.report.folder_evidence import PROVENANCE, Provenance
from bench.report.seen import index

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from bench.report.evidence import Evidence
    from bench.report.model import Report

PREDICATE_TYPE: Final = "https://in-toto.io/attestation/test-result/v0.1"
REPORT_FIELD: Final = "https://pypi.org/project/streamproof/#report"
"""Our extension field: a ResourceDescriptor of the report that says more."""

Outcome: TypeAlias = Literal["passed", "warned", "failed"]

_OF_A_CLAIM: Final[Mapping[str, Outcome]] = {
    "reproduced": "passed",
    "consistent with": "warned",
    "not comparable": "warned",
    "not enough samples": "failed",
    "not reproduced": "failed",
    "invalid measurement": "failed",
}
"""As the exit code has it: what too few samples could not settle has not been shown to hold."""
_OF_A_RULE: Final[Mapping[str, Outcome]] = {"kept": "passed", "unknown": "warned", "broken": "failed"}
_DIGEST: Final = re.compile(r"(?:(?P<name>.+)@)?sha256:(?P<hex>[0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Subject:
    """Something that was tested: a name for people, and its SHA-256 in hex."""

    name: str
    sha256: str

    @property
    def descriptor(self) -> dict[str, Any]:
        """As in-toto writes it."""
        return {"name": self.name, "digest": {"sha256": self.sha256}}


def subjects_of(evidence: Evidence) -> tuple[Subject, ...]:
    """Everything that was tested and has a digest, but the recipe.

    An image has several: its id, and what registries call it. A checkpoint's is the SHA-256 over the lines that
    `sha256sum` prints for its files, sorted by path.
    """
    provenance = Provenance.model_validate(evidence.environment[PROVENANCE])
    found = list(_images(evidence))
    if provenance.pinned.checkpoint_sha256 is not None:
        found.append(Subject(f"checkpoint {evidence.recipe.checkpoint.name}", provenance.pinned.checkpoint_sha256))
    return tuple(dict.fromkeys(found))


def statement(report: Report, subjects: Iterable[Subject], digests: Mapping[str, str]) -> bytes:
    """The in-toto statement.

    Args:
        report: what is said of the subjects.
        subjects: of `subjects_of`.
        digests: SHA-256 of the report's files by name; the recipe and `report.json` are looked up in it.
    """
    recipe = Subject(files.RECIPE, digests[files.RECIPE])
    return sign.statement_of(
        PREDICATE_TYPE,
        [subject.descriptor for subject in (*subjects, recipe)],
        {
            "result": _result(report),
            "configuration": [recipe.descriptor],
            **{f"{outcome}Tests": names for outcome, names in _tests(report).items()},
            REPORT_FIELD: Subject(files.REPORT, digests[files.REPORT]).descriptor,
        },
    )


def _images(evidence: Evidence) -> Iterator[Subject]:
    for container in index(evidence.observations).containers:
        for text in (container.image_id, *container.repo_digests):
            if match := _DIGEST.fullmatch(text):
                yield Subject(f"image {match['name'] or container.image_name}", match["hex"])


def _result(report: Report) -> str:
    if report.exit_code != Exit.OK:
        return "FAILED"
    return "WARNED" if _tests(report)["warned"] else "PASSED"


def _tests(report: Report) -> dict[Outcome, list[str]]:
    """Names of the tests by what came of them, in the order of the report."""
    tests: dict[Outcome, list[str]] = {"passed": [], "warned": [], "failed": []}
    for claim in report.claims:
        tests[_OF_A_CLAIM[claim.verdict]].append(f"claim {claim.id}: {claim.asks}")
    for search in report.searches:
        tests["passed" if search.found else "failed"].append(f"search: {search.says}")
    labels = {point.index: point.label for point in report.points}
    for check in report.checks:
        # Of a search, a rule may be broken where none of its answers rests: the measurement is valid all the same.
        outcome = "warned" if check.verdict == "broken" and report.valid else _OF_A_RULE[check.verdict]
        where = "" if check.point is None else f" ({labels.get(check.point, check.point)})"
        tests[outcome].append(f"rule {check.rule}{where}")
    tests["failed" if report.partial else "passed"].append("the run came to its end")
    return tests
