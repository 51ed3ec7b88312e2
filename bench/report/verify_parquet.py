"""Looks at what a Parquet file claims to hold before a value of it is read.

A few kilobytes can claim, and through dictionary and run-length encoding even hold, 10^9 rows.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from bench.report import folder_files as files
from bench.report.verify_files import Finding, RefusedError

ROWS_LIMIT: Final = 5_000_000
"""Requests: a week at 8 a second."""
BYTES_LIMIT: Final = 4 << 30
"""Claimed size of all columns, uncompressed."""
GROUPS_LIMIT: Final = 10_000


def check_claims(raw: bytes) -> None:
    """Reads the footer only.

    Args:
        raw: the whole file.

    Raises:
        RefusedError: no Parquet, or it claims more than a report can have.
    """
    try:
        footer = pq.read_metadata(pa.BufferReader(raw))
    except (pa.ArrowException, OSError) as error:
        raise RefusedError(Finding(files.RECORDS, f"is no Parquet file: {str(error).splitlines()[0][:200]}")) from error
    sizes = [footer.row_group(index).total_byte_size for index in range(min(footer.num_row_groups, GROUPS_LIMIT))]
    for what, claimed, limit in (
        ("rows", footer.num_rows, ROWS_LIMIT),
        ("row groups", footer.num_row_groups, GROUPS_LIMIT),
        ("bytes in its columns", sum(sizes), BYTES_LIMIT),
    ):
        if not 0 <= claimed <= limit:
            raise RefusedError(Finding(files.RECORDS, f"claims {claimed:,} {what}; a report has at most {limit:,}"))
