import io
import resource
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.engine.pins import REPOSITORY
from bench.report import verify_parquet
from bench.report.table import SCHEMA, table_of
from bench.report.verify_files import RefusedError
from bench.report.verify_parquet import read_hostile_records
from tests.report.factories import make_record
from tests.report.make_bomb import BOMB, CLAIMED


def parquet(tmp_path: Path, table: pa.Table, **options: object) -> bytes:
    path = tmp_path / "records.parquet"
    pq.write_table(table, path, **options)  # type: ignore[arg-type]
    return path.read_bytes()


def small() -> bytes:
    sink = io.BytesIO()
    pq.write_table(table_of([make_record()] * 10), sink, store_schema=False)
    return sink.getvalue()


SMALL = small()


def test_honest_records_pass(tmp_path: Path) -> None:
    assert read_hostile_records(parquet(tmp_path, table_of([make_record()] * 10))).num_rows == 10
    assert read_hostile_records(parquet(tmp_path, SCHEMA.empty_table())).num_rows == 0


@pytest.mark.parametrize("raw", [b"", b"PAR1", b"PAR1" + b"\xff" * 40 + b"PAR1", b"<html>"])
def test_what_is_no_parquet_is_refused(raw: bytes) -> None:
    with pytest.raises(RefusedError, match=r"requests\.parquet: is no Parquet file"):
        read_hostile_records(raw)


def test_more_rows_than_a_report_can_have_are_refused_by_the_footer(tmp_path: Path) -> None:
    rows = 2 * verify_parquet.ROWS_LIMIT
    table = pa.table({"primed": pa.repeat(pa.scalar(value=False), rows)})  # run-length encoded: a few kilobytes
    raw = parquet(tmp_path, table)
    assert len(raw) < 100_000
    with pytest.raises(RefusedError, match=f"claims {rows:,} rows; a report has at most {rows // 2:,}"):
        read_hostile_records(raw)


def test_too_many_row_groups_or_bytes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = parquet(tmp_path, table_of([make_record()] * 10), row_group_size=1)
    monkeypatch.setattr(verify_parquet, "GROUPS_LIMIT", 9)
    with pytest.raises(RefusedError, match="claims 10 row groups; a report has at most 9"):
        read_hostile_records(raw)
    monkeypatch.setattr(verify_parquet, "GROUPS_LIMIT", 10)
    monkeypatch.setattr(verify_parquet, "BYTES_LIMIT", 100)
    with pytest.raises(RefusedError, match="bytes; a report has at most 100"):
        read_hostile_records(raw)


def test_pages_that_unpack_to_far_more_than_the_footer_claims_are_refused() -> None:
    raw = BOMB.read_bytes()
    assert len(raw) < 50_000
    assert pq.read_metadata(pa.BufferReader(raw)).row_group(0).total_byte_size == CLAIMED
    limit = resource.getrlimit(resource.RLIMIT_DATA)
    with pytest.raises(RefusedError, match=r"requests\.parquet: unpacks to far more than it claims"):
        read_hostile_records(raw)
    assert resource.getrlimit(resource.RLIMIT_DATA) == limit


def test_columns_of_another_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="its columns are not those of request records"):
        read_hostile_records(parquet(tmp_path, pa.table({"primed": [True]})))


def test_a_memory_error_of_python_itself_is_a_refusal_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hungry(_source: object) -> None:
        np.empty(1 << 33, dtype=np.uint8)

    monkeypatch.setattr(verify_parquet, "read_records", hungry)
    with pytest.raises(RefusedError, match="unpacks to far more than it claims"):
        read_hostile_records(parquet(tmp_path, table_of([make_record()])))


def test_no_thread_of_arrow_is_started(tmp_path: Path) -> None:
    """One that reads for a Python file aborts a process that ends soon after: one refusal in fifteen."""
    path = tmp_path / "records.parquet"
    path.write_bytes(parquet(tmp_path, table_of([make_record()] * 10)))
    program = (
        "import os, pathlib, sys; from bench.report.verify_parquet import read_hostile_records as read\n"
        "raw, threads = pathlib.Path(sys.argv[1]).read_bytes(), len(os.listdir('/proc/self/task'))\n"
        "print(read(raw).num_rows, len(os.listdir('/proc/self/task')) - threads)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, path], check=True, capture_output=True, text=True, cwd=REPOSITORY
    )
    assert done.stdout == "10 0\n"


def test_a_footer_whose_sizes_do_not_fit_together_is_refused_and_ends_no_process() -> None:
    """Two records; one byte of the footer is another one. Asked for that column's sizes, pyarrow 26.0.1 aborts."""
    raw = BOMB.with_name("sizes-do-not-fit.parquet").read_bytes()
    with pytest.raises(RefusedError, match=r"requests\.parquet: "):
        read_hostile_records(raw)


@given(st.data())
def test_a_changed_byte_never_ends_in_anything_but_a_refusal(data: st.DataObject) -> None:
    raw = bytearray(SMALL)
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]))
    with suppress(RefusedError):
        read_hostile_records(bytes(raw))
