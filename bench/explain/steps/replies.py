"""The replies of one operating point: their moments, and the gaps between their chunks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.errors import StreamproofError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bench.report.columns import Columns

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]
    Rows = NDArray[np.intp]

LONGEST_S: Final = 366 * 86400.0
"""Of a run: no clock of one is later, and sums of such times stay finite."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Replies:
    """n complete replies with m gaps. Times are seconds since the run's epoch.

    Attributes:
        intended, sent, first, last, done: of each reply, shape (n,): intended and real sending, first and last chunk,
            last byte.
        chunks: of each reply, shape (n,).
        tokens: of each reply by its usage, NaN where it has none, shape (n,).
        gaps: seconds between two chunks of one reply, shape (m,).
        begins: when each gap began, shape (m,).
        owners: the reply that each gap is of, shape (m,).
    """

    intended: Floats
    sent: Floats
    first: Floats
    last: Floats
    done: Floats
    chunks: Integers
    tokens: Floats
    gaps: Floats
    begins: Floats
    owners: NDArray[np.int32]

    @property
    def e2e(self) -> Floats:
        """Seconds from the intended send time to the last byte, shape (n,)."""
        return self.done - self.intended


def replies_of(columns: Columns, chunk_s: Any, rows: Rows) -> Replies:  # noqa: ANN401  an Arrow column of lists
    """The replies of some records, all of them complete.

    Args:
        columns: of all records.
        chunk_s: arrivals of the chunks of all records.
        rows: which records.

    Raises:
        StreamproofError: moments that contradict each other.
    """
    flat, counts = stamps(chunk_s, rows)
    owners = np.repeat(np.arange(len(rows), dtype=np.int32), counts)
    inside = owners[1:] == owners[:-1]
    gaps = np.diff(flat)[inside]
    ends = np.cumsum(counts)
    if not counts.all() or (gaps.size and gaps.min() < 0):
        raise _contradiction("chunks that are not in order, or none in a complete reply")
    first, last = flat[ends - counts], flat[ends - 1]
    sent, done = columns.sent[rows], columns.done[rows]
    in_order = (sent <= first) & (last <= done) & (done < LONGEST_S)
    if not in_order.all():
        raise _contradiction("a reply that ended before it began")
    if not (np.array_equal(first, columns.first_token[rows]) and np.array_equal(last, columns.last_token[rows])):
        raise _contradiction("a first or last token that is in no chunk")
    return Replies(
        intended=columns.intended[rows],
        sent=sent,
        first=first,
        last=last,
        done=done,
        chunks=counts,
        tokens=columns.completion[rows],
        gaps=gaps,
        begins=flat[:-1][inside],
        owners=owners[1:][inside],
    )


def stamps(chunk_s: Any, rows: Rows) -> tuple[Floats, Integers]:  # noqa: ANN401  as above
    """(all arrivals of some records, one record after another; how many each has)."""
    taken = chunk_s.take(pa.array(rows))
    counts = np.asarray(pc.list_value_length(taken).to_numpy(), dtype=np.int64)
    return np.asarray(pc.list_flatten(taken).to_numpy(), dtype=np.float64), counts


def _contradiction(what: str) -> StreamproofError:
    return StreamproofError(
        f"The request records contradict each other: {what}.",
        remedy="They were changed after they were written, or are not ours.",
    )
