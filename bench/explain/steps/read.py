"""Reads what `just steps` needs of a report's folder, which anybody may have made.

As `just graphs` does: every file must be the one that was signed, and of a kind and size that reports have. Beyond
that, the records are read within the bounds of a verification, and whatever is computed from them is, too. Who signed,
and whether every figure of the report follows from its records, is `just verify`'s to say.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa

from bench.errors import StreamproofError, UsageError
from bench.explain.report_folder import read_report, read_signed
from bench.report import folder_files as files
from bench.report import verify
from bench.report.measurement import Measurement
from bench.report.table import read_parquet
from bench.report.verify_files import HostileFolder, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

    from bench.report.model import Report
    from recipes.schema import Recipe

_CHUNKS: Final = "chunk_s"
_DAMAGED: Final = "It was changed or damaged after it was written, or made to do harm."


@dataclass(frozen=True, eq=False, kw_only=True)
class Source:
    """A report and what it was computed from.

    Attributes:
        recipe: as it was run.
        report: as it was signed.
        measurement: its records and observations, sorted.
        chunk_s: arrivals of the chunks of each record, an Arrow column of lists in the order of the records.
    """

    recipe: Recipe
    report: Report
    measurement: Measurement
    chunk_s: Any


def read(folder: Path) -> Source:
    """Reads a report; call it within `bounded`.

    Raises:
        UsageError: no report is there, or it is of another schema.
        StreamproofError: it was changed after it was signed.
        RefusedError: it is none that a measurement could have left.
    """
    if not (folder / files.REPORT).is_file():
        raise UsageError(
            f"{folder} holds no {files.REPORT}.",
            remedy=f"Name the folder of a report. If its run was cut off: just finish {folder}",
        )
    _look_at(folder)
    report = read_report(folder)
    raw = {name: read_signed(folder, name) for name in files.EVIDENCE}
    records = pa.BufferReader(raw[files.RECORDS])
    evidence = verify.read_evidence(raw)
    chunk_s = read_parquet(cast("BinaryIO", records), [_CHUNKS]).column(_CHUNKS)
    return Source(recipe=evidence.recipe, report=report, measurement=Measurement.of(evidence), chunk_s=chunk_s)


@contextmanager
def bounded(folder: Path) -> Iterator[None]:
    """No report takes more memory and time than a verification may, and what one would refuse is refused.

    Raises:
        StreamproofError: it is.
    """
    try:
        with verify.bounded():
            yield
    except RefusedError as error:
        told = "; ".join(f"{finding.file} {finding.reason}" for finding in error.findings[:3])
        raise StreamproofError(f"{folder} cannot be read: {told}.", remedy=_DAMAGED) from error


def _look_at(folder: Path) -> None:
    """Refuses links, pipes and sizes that no report has, before anything is read as a whole.

    Raises:
        RefusedError: names the file.
    """
    with HostileFolder(folder) as opened:
        for name in (files.REPORT, *files.EVIDENCE):
            opened.sha256(name)
        if (folder / files.ATTESTATION).exists():
            opened.sha256(files.ATTESTATION)
