"""Makes `data/bomb.parquet`: request records that claim 1,000 bytes and unpack to 900 million.

Run as `python -m tests.report.make_bomb`; it needs 3 GB of memory, which is why the file is kept.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from bench.report.table import SCHEMA, table_of
from tests.report.factories import make_record

BOMB: Final = Path(__file__).with_name("data") / "bomb.parquet"
LETTERS: Final = 900_000_000
CLAIMED: Final = 1000


def bomb() -> bytes:
    """One record whose agent has a long name; both sizes in the footer are replaced by `CLAIMED`."""
    column = SCHEMA.get_field_index("agent")
    table = table_of([make_record()]).set_column(column, SCHEMA.field("agent"), pa.array(["x" * LETTERS]))
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", use_dictionary=False, write_statistics=False, store_schema=False)
    raw = sink.getvalue()
    group = pq.read_metadata(pa.BufferReader(raw)).row_group(0)
    length = int.from_bytes(raw[-8:-4], "little") + 8
    body, footer = raw[:-length], raw[-length:]
    for size in (group.column(column).total_uncompressed_size, group.total_byte_size):
        footer = footer.replace(varint(size), varint(CLAIMED, width=len(varint(size))))
    return body + footer


def varint(value: int, *, width: int = 0) -> bytes:
    """Thrift's compact form of a positive integer, padded to a width with empty digits."""
    value <<= 1
    digits = bytearray()
    while value or len(digits) < width:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    digits[-1] &= 0x7F
    return bytes(digits)


if __name__ == "__main__":
    BOMB.parent.mkdir(exist_ok=True)
    BOMB.write_bytes(bomb())
