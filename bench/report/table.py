"""Request records as lines, as an Arrow table, and as Parquet: one schema, read strictly.

`requests.jsonl` grows while a run is under way, a record a line, so that a crash loses at most the line being written.
At the end it becomes `requests.parquet`. Whoever verifies reads a file from a stranger: the schema must be exactly
`SCHEMA`, so no extension type is ever looked at, and nothing in the file is code.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.affinity import prime_stream
from bench.errors import StreamproofError
from bench.records import Outcome, RequestRecord
from recipes.parallel import MOST_RANKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path
    from typing import BinaryIO


def _required(name: str, kind: pa.DataType) -> pa.Field[Any]:
    return pa.field(name, kind, nullable=False)


SCHEMA: Final = pa.schema(
    [
        _required("point", pa.int32()),
        _required("run", pa.int32()),
        _required("request", pa.int64()),
        _required("stream", pa.int64()),
        _required("conversation", pa.int64()),
        _required("turn", pa.int32()),
        _required("agent", pa.string()),
        _required("primed", pa.bool_()),
        _required("intended_s", pa.float64()),
        pa.field("sent_s", pa.float64()),
        pa.field("headers_s", pa.float64()),
        pa.field("first_token_s", pa.float64()),
        pa.field("last_token_s", pa.float64()),
        _required("done_s", pa.float64()),
        _required("chunk_s", pa.list_(_required("element", pa.float64()))),
        _required("prompt_tokens_expected", pa.int64()),
        pa.field("prompt_tokens", pa.int64()),
        pa.field("cached_tokens", pa.int64()),
        pa.field("completion_tokens", pa.int64()),
        _required("requested_tokens", pa.int64()),
        pa.field("finish_reason", pa.string()),
        pa.field("status", pa.int32()),
        _required("outcome", pa.string()),
        _required("error", pa.string()),
        _required(
            "segments",
            pa.list_(
                _required("element", pa.struct([_required("key", pa.int64()), _required("tokens", pa.int64())])),
            ),
        ),
    ],
)
"""The columns of `bench.records.RequestRecord`, in its order; only what can be None there can be null here."""

REPORTED: Final = tuple(name for name in SCHEMA.names if name not in {"headers_s", "chunk_s", "error", "cached_tokens"})
"""What the report is computed from. Chunk times are most of a file, and only pictures need them."""

LEAST: Final = {"stream": prime_stream(MOST_RANKS - 1)}
"""The smallest value of a column of whole numbers where it is not 0: a priming request belongs to a rank only."""

_FITTING: Final = (
    (pa.types.is_integer, (int,)),
    (pa.types.is_floating, (int, float)),
    (pa.types.is_boolean, (bool,)),
    (pa.types.is_string, (str, Outcome)),
)
"""The Python types of each kind of column, exactly: a bool is an int to Python and no number here."""

LINES_AT_ONCE: Final = 4_000
"""Lines converted at once: some 40 MB of Python objects, whatever the length of the run."""

_NAMES: Final = frozenset(SCHEMA.names)


@dataclass(frozen=True, slots=True)
class Converted:
    """What became of a file of lines.

    Attributes:
        records: how many were converted.
        torn: whether the last line had been cut short (the client was killed while it wrote) and was left out.
    """

    records: int
    torn: bool


def line_of(record: RequestRecord) -> bytes:
    """One line of `requests.jsonl`, its end included."""
    return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)


def table_of(records: Iterable[RequestRecord]) -> pa.Table:
    """A table of records, in their order.

    Raises:
        StreamproofError: a value that does not fit its column, or is not one that a record can have.
    """
    table = pa.Table.from_batches([_batch([asdict(record) for record in records], "a record")], schema=SCHEMA)
    check_values(table)
    return table


def convert(lines: Path, parquet: Path) -> Converted:
    """Writes the Parquet form of a file of lines, a batch at a time.

    Args:
        lines: `requests.jsonl`, as the run left it.
        parquet: where to write; replaced if it is there.

    Raises:
        StreamproofError: a line (named by number) that is not a record.
        OSError: one of the files cannot be read or written.
    """
    count, torn = 0, False
    unfinished = parquet.with_name(f"{parquet.name}.part")
    try:
        with (
            lines.open("rb") as source,
            pq.ParquetWriter(unfinished, SCHEMA, compression="zstd", store_schema=False) as writer,
        ):
            numbered = enumerate(source, start=1)
            while chunk := list(islice(numbered, LINES_AT_ONCE)):
                if not chunk[-1][1].endswith(b"\n"):
                    torn = True
                    chunk.pop()
                rows = [_row(line, number, lines.name) for number, line in chunk]
                writer.write_batch(_batch(rows, f"{lines.name}, lines {count + 1} to {count + len(rows)}"))
                count += len(rows)
        unfinished.replace(parquet)
    finally:
        unfinished.unlink(missing_ok=True)
    return Converted(count, torn)


def read_parquet(source: Path | BinaryIO, columns: Sequence[str] = REPORTED) -> pa.Table:
    """Reads a file of records that may come from anybody.

    Args:
        source: path, or an open binary file.
        columns: which to read.

    Raises:
        StreamproofError: not Parquet, damaged, other columns or types than `SCHEMA`, or a value that no record has.
        OSError: it cannot be read.
    """
    try:
        with pq.ParquetFile(source) as file:
            if not file.schema_arrow.equals(SCHEMA, check_metadata=False):
                raise _damaged("its columns are not those of request records")
            table = file.read(columns=list(columns), use_threads=False)
    except pa.ArrowException as error:
        raise _damaged(str(error).splitlines()[0]) from error
    check_values(table)
    return table


def check_values(table: pa.Table) -> None:
    """Refuses what fits the columns but is no record: an unknown outcome, a negative count, an infinite time, a gap.

    Raises:
        StreamproofError: it names the column.
    """
    for name in table.column_names:
        column = table.column(name)
        if column.null_count and not SCHEMA.field(name).nullable:
            raise _damaged(f"column {name} has empty values")
        for leaf in _leaves(column):
            if pa.types.is_floating(leaf.type) and not _all(pc.is_finite(leaf)):
                raise _damaged(f"column {name} has values that are not finite")
            if pa.types.is_integer(leaf.type):
                least = pa.scalar(LEAST.get(name, 0), leaf.type)
                if not _all(pc.greater_equal(leaf, least)):
                    raise _damaged(f"column {name} has values below {least}")
    if "outcome" in table.column_names:
        known = pa.array([outcome.value for outcome in Outcome])
        if not _all(pc.is_in(table.column("outcome"), value_set=known)):
            raise _damaged("column outcome has an unknown value")


def _leaves(column: Any) -> list[Any]:  # noqa: ANN401  Arrow arrays of any type
    """The plain columns that a column is made of."""
    if pa.types.is_list(column.type):
        return _leaves(pc.list_flatten(column))
    if pa.types.is_struct(column.type):
        return [pc.struct_field(column, number) for number in range(column.type.num_fields)]
    return [column]


def _all(truths: Any) -> bool:  # noqa: ANN401  a boolean Arrow array, chunked or not
    """Whether all are true; nulls do not count, and nothing at all is all true."""
    return pc.all(truths, min_count=0).as_py() is not False


def _row(line: bytes, number: int, file: str) -> dict[str, Any]:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise _damaged(f"{file}, line {number} is not JSON: {error}") from error
    if not isinstance(row, dict) or row.keys() != _NAMES:
        raise _damaged(f"{file}, line {number} does not have the fields of a record")
    return row


def _batch(rows: Sequence[Mapping[str, Any]], where: str) -> pa.RecordBatch:
    columns = []
    for field in SCHEMA:
        try:
            columns.append(_column([row[field.name] for row in rows], field.type))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise _damaged(f"{where}: a value of {field.name} does not fit: {error}") from error
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _column(values: Sequence[Any], kind: Any) -> Any:  # noqa: ANN401  an Arrow type and an array of it
    """Converts without bending: Arrow itself would make 1 of 1.5, and 1.0 of true.

    Raises:
        ArrowException, TypeError, ValueError: a value is of another type.
    """
    if pa.types.is_list(kind):
        offsets = np.zeros(len(values) + 1, np.int32)
        np.cumsum([len(value) for value in values], dtype=np.int32, out=offsets[1:])
        flat = _column([item for value in values for item in value], kind.value_type)
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), flat, type=kind)
    if pa.types.is_struct(kind):
        parts = zip(*values, strict=True) if values else [[]] * kind.num_fields
        return pa.StructArray.from_arrays(
            [_column(list(part), field.type) for part, field in zip(parts, kind, strict=True)], fields=list(kind)
        )
    fitting = next(types for is_kind, types in _FITTING if is_kind(kind))
    others = {type(value) for value in values if value is not None} - set(fitting)
    if others:
        raise TypeError(f"{' and '.join(sorted(other.__name__ for other in others))} instead of {kind}")
    return pa.array(values, kind)


def _damaged(what: str) -> StreamproofError:
    return StreamproofError(
        f"The request records cannot be used: {what}.",
        remedy="They were changed or damaged after they were written, or written by another version.",
    )
