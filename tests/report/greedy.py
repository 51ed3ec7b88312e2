"""What makes a report take more memory or time than any honest one."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from bench.report import folder_files as files
from bench.report.table import table_of
from tests.report.factories import make_record

if TYPE_CHECKING:
    from pathlib import Path


def long_prompts(folder: Path, tokens: int) -> None:
    """Ten requests with prompts of so many tokens, whose prefix-cache hits are predicted block by block.

    60 million, just within what is computed at all, take over a minute; 10^12 take some weeks.
    """
    sink = io.BytesIO()
    pq.write_table(table_of([make_record(segments=((1, tokens),))] * 10), sink, store_schema=False)
    (folder / files.RECORDS).write_bytes(sink.getvalue())


JUST_WITHIN = 60_000_000
"""Tokens of each prompt, see `long_prompts`."""


def empty_points(folder: Path, amount: int) -> None:
    """A `report.json` of 3 bytes a point, for each of which the reader notes some twenty fields that are missing.

    100,000 take 7 s and 2.5 GB, and the file may have 50 times as many.
    """
    folder.mkdir(parents=True, exist_ok=True)
    points = b",".join([b"{}"] * amount)
    (folder / files.REPORT).write_bytes(b'{"schema_version":"1.0","points":[' + points + b"]}")
