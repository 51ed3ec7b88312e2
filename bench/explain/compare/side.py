"""One side of a comparison: a report that was verified, or is taken without that and says so."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bench.errors import StreamproofError, UsageError
from bench.explain.compare.outcome import SideFacts
from bench.report import folder_files as files
from bench.report.measurement import Measurement, Place
from bench.report.verify import recompute, verify
from bench.report.verify_files import HostileFolder, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from bench.explain.compare.outcome import Metric
    from bench.report.evidence import Evidence
    from bench.report.keys import TrustedKey
    from bench.report.model import Report
    from bench.report.verify_files import Finding
    from recipes.schema import Point


@dataclass(frozen=True, eq=False)
class Side:
    """A report and what it was computed from.

    Attributes:
        name: its folder, as it was named.
        evidence: as read.
        report: what was computed from it, whatever its `report.json` says; where that is verified, the two are one.
        unverified: why it is not verified; None where it is.
        identity: the same for two copies of one report.
        remark: what of it was not verified besides, and decides no figure; empty where nothing.
    """

    name: str
    evidence: Evidence
    report: Report
    unverified: str | None
    identity: str
    remark: str = ""

    @cached_property
    def measurement(self) -> Measurement:
        """The evidence, sorted."""
        return Measurement.of(self.evidence)

    @property
    def facts(self) -> SideFacts:
        """What is told of it."""
        report = self.report
        return SideFacts(
            folder=self.name,
            title=report.title,
            target=report.target,
            fingerprint=report.fingerprint,
            started_at=report.started_at,
            runs=len({window.run for point in report.points for window in point.runs}),
            unverified=self.unverified,
        )

    @property
    def points(self) -> dict[Point, tuple[int, ...]]:
        """Its operating points with their indices: a search measures one more than once."""
        ladder = self.evidence.recipe.load.ladder
        distinct = list({point.model_dump_json(): point for point in ladder}.values())
        return {point: tuple(index for index, other in enumerate(ladder) if other == point) for point in distinct}

    def latencies(self, indices: tuple[int, ...], metric: Metric) -> list[NDArray[np.float64]]:
        """The window's latencies at some points, in order of time, an array for each engine start.

        Seconds, +infinity for a failure. Requests without such a latency are left out.
        """
        columns = self.measurement.columns
        values = {"e2e": columns.e2e, "ttft": columns.ttft, "tpot": columns.tpot}[metric]
        found = []
        for run in self._runs(indices):
            rows = np.concatenate([self.measurement.placed(run, index, Place.WINDOW) for index in indices])
            taken = values[rows[columns.sampled[rows]]]
            found.append(taken[~np.isnan(taken)])
        return found

    def requests_per_s(self, indices: tuple[int, ...]) -> list[float]:
        """Complete replies per second of the window, a value for each engine start."""
        measurement, rates = self.measurement, []
        for run in self._runs(indices):
            done, length = 0, 0.0
            for index in indices:
                rows = measurement.placed(run, index, Place.WINDOW)
                done += int(measurement.columns.ok[rows].sum())
                length += measurement.windows[run, index].length if (run, index) in measurement.windows else 0.0
            rates.append(done / length if length else 0.0)
        return rates

    def failures(self, indices: tuple[int, ...]) -> tuple[int, int]:
        """(failed, all) requests of the window."""
        points = [point for point in self.report.points if point.index in indices]
        return sum(sum(point.failures.values()) for point in points), sum(point.requests for point in points)

    def _runs(self, indices: tuple[int, ...]) -> list[int]:
        return sorted({run for index in indices for run in self.measurement.runs_of(index)})


def read_side(folder: Path, trusted: Mapping[str, TrustedKey], *, unverified: bool = False) -> Side:
    """Verifies a report's folder, and takes what it was computed from.

    Signature, digests, evidence and figures must hold. Pages that another commit drew differently decide no figure:
    they are remarked, and the report is taken.

    Args:
        folder: of the report; anybody may have made it.
        trusted: keys by id.
        unverified: take a report that cannot be verified too; its figures are computed from its records all the same,
            within the bounds of a verification.

    Raises:
        UsageError: no report is there.
        StreamproofError: it is not verified, or its records give no report.
    """
    if not (folder / files.REPORT).is_file():
        raise UsageError(
            f"{folder} holds no {files.REPORT}.",
            remedy=f"Name the folder of a report. If its run was cut off: just finish {folder}",
        )
    found = verify(folder, trusted)
    seen = _told(found.findings[:3])
    why = seen if found.report is None else None
    if why is not None and not unverified:
        remedies = [finding.remedy for finding in found.findings if finding.remedy][:1]
        raise StreamproofError(
            f"{folder} is not verified: {why}.",
            remedy=" ".join([*remedies, f"See: just verify {folder}. --unverified takes it as it is, and says so."]),
        )
    try:
        if found.report is None or found.evidence is None:
            evidence, report = recompute(folder)
        else:
            evidence, report = found.evidence, found.report
        identity = _identity(folder)
    except RefusedError as error:
        raise StreamproofError(
            f"{folder} cannot be taken as it is either: {_told(error.findings)}.",
            remedy="It was changed or damaged after it was written, or made to do harm.",
        ) from error
    return Side(
        name=str(folder),
        evidence=evidence,
        report=report,
        unverified=why,
        identity=identity,
        remark="" if why else seen,
    )


def _told(findings: Iterable[Finding]) -> str:
    return "; ".join(f"{finding.file} {finding.reason}" for finding in findings)


def _identity(folder: Path) -> str:
    with HostileFolder(folder) as opened:
        return " ".join(opened.sha256(name) for name in (files.OBSERVATIONS, files.RECORDS))
