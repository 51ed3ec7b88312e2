"""Reads the records of a report that somebody hostile may have made.

A few kilobytes can claim, and through run-length encoding even hold, 10^9 rows; and a footer can claim little where its
pages unpack to gigabytes. So the footer is looked at first, and the read itself gets only as much memory as the claims
of the footer can need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import pyarrow as pa
import pyarrow.parquet as pq

from bench.report import folder_files as files
from bench.report.folder_evidence import EvidenceError, read_records
from bench.report.verify_bounds import memory_for
from bench.report.verify_files import MEBIBYTE, Finding, RefusedError

if TYPE_CHECKING:
    from typing import BinaryIO

ROWS_LIMIT: Final = 5_000_000
"""Requests: a week at 8 a second."""
GROUPS_LIMIT: Final = 10_000
BYTES_LIMIT: Final = 2 << 30
"""Claimed size of all columns, unpacked."""
FOOTER_LIMIT: Final = 32 * MEBIBYTE
"""Bytes: 1,250 groups of our 25 columns have 5 MB. In memory a footer is some 10 times as large."""
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
        with memory_for(3 * claimed + ROOM):
            # Not a file of Python's: Arrow reads those on a thread of its own, which wants the interpreter once more
            # when it is gone, and aborts the process (https://github.com/apache/arrow/issues/34314).
            return read_records(cast("BinaryIO", pa.BufferReader(raw)))
    except EvidenceError as error:
        reason = _UNPACKS if _for_memory(error) else error.reason
        raise RefusedError(Finding(error.file, reason)) from error
    except MemoryError as error:
        raise RefusedError(Finding(files.RECORDS, _UNPACKS)) from error
    except (OSError, ValueError) as error:  # what Arrow calls an error of reading, and text that is no UTF-8
        raise RefusedError(Finding(files.RECORDS, f"is damaged: {_first_line(error)}")) from error


_UNPACKS: Final = "unpacks to far more than it claims"


def _for_memory(error: BaseException | None) -> bool:
    """Whether Arrow wanted more memory than it got: its error for that is one of many kinds of "damaged"."""
    while error is not None and not isinstance(error, MemoryError):
        error = error.__cause__
    return error is not None


def _claimed_bytes(raw: bytes) -> int:
    """What the columns claim to need, once no claim is beyond its limit."""
    footer_bytes = int.from_bytes(raw[-8:-4], "little")
    if footer_bytes <= len(raw):  # else it is damaged, which the reader says
        _within("bytes of footer", footer_bytes, FOOTER_LIMIT)
    try:
        with memory_for(ROOM):
            footer = pq.read_metadata(pa.BufferReader(raw))
    except MemoryError as error:
        raise RefusedError(Finding(files.RECORDS, "has a footer that unpacks to far more than it is")) from error
    except (pa.ArrowException, OSError, ValueError) as error:
        raise RefusedError(Finding(files.RECORDS, f"is no Parquet file: {_first_line(error)}")) from error
    _within("rows", footer.num_rows, ROWS_LIMIT)
    _within("row groups", footer.num_row_groups, GROUPS_LIMIT)
    # By row group: when the sizes that a footer claims of a column do not fit together, asking for them aborts us.
    sizes = [footer.row_group(index).total_byte_size for index in range(footer.num_row_groups)]
    if any(size < 0 for size in sizes):
        raise RefusedError(Finding(files.RECORDS, "claims a group of rows of a negative size"))
    _within("bytes", sum(sizes), BYTES_LIMIT)
    return sum(sizes)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)[:200]


def _within(what: str, claimed: int, limit: int) -> None:
    if not 0 <= claimed <= limit:
        raise RefusedError(Finding(files.RECORDS, f"claims {claimed:,} {what}; a report has at most {limit:,}"))
