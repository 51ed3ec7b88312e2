"""Reads the records of a report that somebody hostile may have made.

A few kilobytes can claim, and through run-length encoding even hold, 10^9 rows; and a footer can claim little where its
pages unpack to gigabytes. So the footer is looked at first, and the read itself gets only as much memory as the claims
of the footer can need.
"""

from __future__ import annotations

import io
import re
import resource
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from bench.report import folder_files as files
from bench.report.folder_evidence import EvidenceError, read_records
from bench.report.table import REPORTED
from bench.report.verify_files import Finding, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS_LIMIT: Final = 5_000_000
"""Requests: a week at 8 a second."""
GROUPS_LIMIT: Final = 10_000
BYTES_LIMIT: Final = 2 << 30
"""Claimed size of the columns that are read, unpacked."""
ROOM: Final = 512 << 20
"""Memory beside three times the claimed size: for unpacking, and for Arrow's own pools."""


def read_hostile_records(raw: bytes) -> pa.Table:
    """Reads what the report is computed from.

    Args:
        raw: the whole file.

    Raises:
        RefusedError: no Parquet, more claimed than a report can have, more held than claimed, or no request records.
    """
    claimed = _claimed_bytes(raw)
    try:
        with _memory_for(3 * claimed + ROOM):
            return read_records(io.BytesIO(raw))
    except EvidenceError as error:
        raise RefusedError(Finding(error.file, error.reason)) from error
    except MemoryError as error:
        raise RefusedError(Finding(files.RECORDS, "unpacks to far more than it claims")) from error


def _claimed_bytes(raw: bytes) -> int:
    """What the columns that are read claim to need, once no claim is beyond its limit."""
    try:
        footer = pq.read_metadata(pa.BufferReader(raw))
    except (pa.ArrowException, OSError) as error:
        raise RefusedError(Finding(files.RECORDS, f"is no Parquet file: {str(error).splitlines()[0][:200]}")) from error
    _within("rows", footer.num_rows, ROWS_LIMIT)
    _within("row groups", footer.num_row_groups, GROUPS_LIMIT)
    sizes = [
        column.total_uncompressed_size
        for group in (footer.row_group(index) for index in range(footer.num_row_groups))
        for column in (group.column(index) for index in range(group.num_columns))
        if column.path_in_schema.split(".", 1)[0] in REPORTED
    ]
    if any(size < 0 for size in sizes):
        raise RefusedError(Finding(files.RECORDS, "claims a column of a negative size"))
    _within("bytes", sum(sizes), BYTES_LIMIT)
    return sum(sizes)


def _within(what: str, claimed: int, limit: int) -> None:
    if not 0 <= claimed <= limit:
        raise RefusedError(Finding(files.RECORDS, f"claims {claimed:,} {what}; a report has at most {limit:,}"))


@contextmanager
def _memory_for(more: int) -> Iterator[None]:
    """Lets the process take at most so many bytes more than it has; what wants more gets a MemoryError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    data = re.search(r"^VmData:\s+(\d+) kB$", Path("/proc/self/status").read_text(encoding="ascii"), re.MULTILINE)
    wanted = (int(data[1]) << 10) + more if data else soft
    limits = [limit for limit in (wanted, soft, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits, default=resource.RLIM_INFINITY), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
