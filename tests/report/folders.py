"""Report folders on disk, made as a run makes them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from bench.report import folder_files as files
from bench.report.folder import begin, finish, sign_folder
from bench.report.folder_evidence import Provenance, evidence_of, read_records
from bench.report.keys import TrustedKey, own_signer
from bench.report.model import Producer, Report
from bench.report.table import line_of
from bench.report.trust.test_result import Subject, subjects_of
from bench.report.verify import verify
from recipes.fingerprint import Pinned
from tests.report.factories import make_claim, make_recipe
from tests.report.scene import ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from bench.observe.observations import Observation
    from bench.records import RequestRecord
    from bench.report.evidence import Evidence
    from bench.report.keys import Signer
    from bench.report.verify import Verification
    from recipes.schema import Recipe

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)

PROVENANCE = Provenance(
    producer=Producer(name="streamproof", version=version("streamproof"), commit="c" * 40, dirty=False),
    started_at="2026-11-30T11:00:00Z",
    pinned=Pinned(lock_sha256="1" * 64, image_digest=None, checkpoint_sha256="2" * 64, workload_version="1"),
)


@dataclass(frozen=True)
class Signed:
    """A finished report and the key that signed it."""

    path: Path
    report: Report
    signer: Signer
    subjects: tuple[Subject, ...] = field(default=())
    """What was tested, as the honest evidence says it."""

    @property
    def trusted(self) -> dict[str, TrustedKey]:
        return {self.signer.key_id: TrustedKey(self.signer.key_id, self.signer.public, "your own key")}

    def verify(self) -> Verification:
        return verify(self.path, self.trusted)

    def copy(self, to: Path) -> Signed:
        return Signed(shutil.copytree(self.path, to), self.report, self.signer, self.subjects)

    def sign_again(self) -> None:
        """What a signer with a trusted key can do: all digests fit again."""
        sign_folder(self.path, self.report, self.subjects, self.signer, NOW)


def recipe_with_claims() -> Recipe:
    return make_recipe(claims=[make_claim(), make_claim(id="forty", point={"streams": 40}, value_s=0.2)])


def begun(
    reports: Path,
    records: Iterable[RequestRecord],
    observations: Iterable[Observation],
    *,
    recipe: Recipe | None = None,
    environment: dict[str, Any] | None = None,
) -> Path:
    """A folder as a run leaves it before it is finished."""
    folder = begin(reports, recipe or recipe_with_claims(), PROVENANCE, environment or ENVIRONMENT)
    (folder / files.RUNNING_RECORDS).write_bytes(b"".join(line_of(record) for record in records))
    lines = [observation.model_dump_json().encode() + b"\n" for observation in observations]
    (folder / files.OBSERVATIONS).write_bytes(b"".join(lines))
    (folder / files.engine_log(0)).write_text("INFO the engine's log\n")
    return folder


def signed(base: Path, records: Iterable[RequestRecord], observations: Iterable[Observation], **more: Any) -> Signed:
    """A finished folder, signed by a key of its own."""
    folder = begun(base / "reports", records, observations, **more)
    signer = own_signer(base / "keys")
    report = finish(folder, signer=signer, now=NOW)
    return Signed(folder, report, signer, subjects_of(evidence_in(folder)))


def evidence_in(folder: Path) -> Evidence:
    """What an honest report was computed from."""
    names = (files.RECIPE, files.ENVIRONMENT, files.OBSERVATIONS)
    recipe, environment, observations = ((folder / name).read_bytes() for name in names)
    return evidence_of(recipe, environment, observations, read_records(folder / files.RECORDS))
