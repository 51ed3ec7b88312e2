"""Records survive lines and Parquet unchanged, and nothing else gets in."""

from __future__ import annotations

import io
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.errors import StreamproofError
from bench.records import Outcome, RequestRecord
from bench.report import table
from bench.report.table import LINES_AT_ONCE, REPORTED, SCHEMA, Converted, convert, line_of, read_parquet, table_of
from tests.report.factories import healthy_records, make_failure, make_record

COUNT = st.integers(0, 2**40)
SMALL = st.integers(0, 2**31 - 1)
TIME = st.floats(-1e9, 1e9)
RECORDS = st.builds(
    RequestRecord,
    point=SMALL,
    run=SMALL,
    request=COUNT,
    stream=st.integers(-1, 2**40),
    conversation=COUNT,
    turn=SMALL,
    agent=st.text(st.characters(exclude_categories=["Cs"])),
    primed=st.booleans(),
    intended_s=TIME,
    sent_s=st.none() | TIME,
    headers_s=st.none() | TIME,
    first_token_s=st.none() | TIME,
    last_token_s=st.none() | TIME,
    done_s=TIME,
    chunk_s=st.lists(TIME, max_size=3).map(tuple),
    prompt_tokens_expected=COUNT,
    prompt_tokens=st.none() | COUNT,
    cached_tokens=st.none() | COUNT,
    completion_tokens=st.none() | COUNT,
    requested_tokens=COUNT,
    finish_reason=st.none() | st.sampled_from(["stop", "length"]),
    status=st.none() | st.integers(100, 599),
    outcome=st.sampled_from(Outcome),
    error=st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    segments=st.lists(st.tuples(st.integers(0, 2**63 - 1), COUNT), max_size=4).map(tuple),
)


def records_of(read: pa.Table) -> list[RequestRecord]:
    rows = read.to_pylist()
    return [
        RequestRecord(
            **row
            | {
                "outcome": Outcome(row["outcome"]),
                "chunk_s": tuple(row["chunk_s"]),
                "segments": tuple((segment["key"], segment["tokens"]) for segment in row["segments"]),
            }
        )
        for row in rows
    ]


@settings(max_examples=50)
@given(records=st.lists(RECORDS, max_size=5))
def test_records_survive_lines_and_parquet(
    records: list[RequestRecord], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("records")
    lines, parquet = folder / "requests.jsonl", folder / "requests.parquet"
    lines.write_bytes(b"".join(line_of(record) for record in records))
    assert convert(lines, parquet) == Converted(len(records), torn=False)
    read = read_parquet(parquet, SCHEMA.names)
    assert records_of(read) == records
    assert read.equals(table_of(records))
    assert pq.read_metadata(parquet).metadata is None  # an embedded Arrow schema could name extension types


def test_there_is_a_column_for_every_field_of_a_record() -> None:
    assert SCHEMA.names == [field.name for field in fields(RequestRecord)]


def test_a_record_is_one_line() -> None:
    line = line_of(make_record(error="a\nb"))
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1


def test_long_files_are_converted_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "LINES_AT_ONCE", 3)
    assert LINES_AT_ONCE > 3
    records = healthy_records([0.1] * 7)
    (tmp_path / "lines").write_bytes(b"".join(map(line_of, records)))
    assert convert(tmp_path / "lines", tmp_path / "parquet").records == 8
    with pq.ParquetFile(tmp_path / "parquet") as file:
        assert file.num_row_groups == 3
    assert records_of(read_parquet(tmp_path / "parquet", SCHEMA.names)) == records


def test_a_torn_last_line_is_left_out_and_told(tmp_path: Path) -> None:
    whole = b"".join(map(line_of, healthy_records([0.1])))
    (tmp_path / "lines").write_bytes(whole + line_of(make_record())[:50])
    assert convert(tmp_path / "lines", tmp_path / "parquet") == Converted(2, torn=True)
    assert read_parquet(tmp_path / "parquet").num_rows == 2


def test_no_lines_give_an_empty_table(tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"")
    assert convert(tmp_path / "lines", tmp_path / "parquet") == Converted(0, torn=False)
    assert read_parquet(tmp_path / "parquet").num_rows == 0


def bent(**changes: Any) -> bytes:
    return orjson.dumps(orjson.loads(line_of(make_record())) | changes) + b"\n"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{]\n", "line 2 is not JSON"),
        (b"[]\n", "line 2 does not have the fields"),
        (bent(extra=1), "line 2 does not have the fields"),
        (json.dumps({"point": 1}).encode() + b"\n", "line 2 does not have the fields"),
        (bent(point=1.5), "a value of point does not fit"),
        (bent(point=True), "a value of point does not fit"),
        (bent(point=2**40), "a value of point does not fit"),
        (bent(done_s="now"), "a value of done_s does not fit"),
        (bent(done_s=True), "a value of done_s does not fit: bool instead of double"),
        (bent(sent_s=[]), "a value of sent_s does not fit"),
        (bent(status="200"), "a value of status does not fit"),
        (bent(done_s=True), "a value of done_s does not fit"),
        (bent(primed=1), "a value of primed does not fit"),
        (bent(agent=5), "a value of agent does not fit"),
        (bent(chunk_s=None), "a value of chunk_s does not fit"),
        (bent(chunk_s=["x"]), "a value of chunk_s does not fit"),
        (bent(segments=[[1, 2, 3]]), "a value of segments does not fit"),
        (bent(segments=[[1.5, 2]]), "a value of segments does not fit"),
        (bent(segments=[5]), "a value of segments does not fit"),
    ],
)
def test_a_bad_line_is_named_and_nothing_is_left_behind(tmp_path: Path, line: bytes, said: str) -> None:
    (tmp_path / "lines").write_bytes(line_of(make_record()) + line)
    with pytest.raises(StreamproofError, match=said):
        convert(tmp_path / "lines", tmp_path / "parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["lines"]


def written(read: pa.Table) -> io.BytesIO:
    into = io.BytesIO()
    pq.write_table(read, into)
    return into


def with_column(name: str, values: list[Any]) -> pa.Table:
    whole = table_of([make_record() for _ in values])
    number = SCHEMA.get_field_index(name)
    return whole.set_column(number, SCHEMA.field(name), pa.array(values, SCHEMA.field(name).type))


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("outcome", ["splendid"], "outcome has an unknown value"),
        ("done_s", [float("nan")], "done_s has values that are not finite"),
        ("sent_s", [None, float("inf")], "sent_s has values that are not finite"),
        ("requested_tokens", [-1], "requested_tokens has values below 0"),
        ("stream", [-1025], "stream has values below -1024"),
        ("chunk_s", [[0.1, float("inf")]], "chunk_s has values that are not finite"),
        ("segments", [[{"key": 1, "tokens": -1}]], "segments has values below 0"),
    ],
)
def test_what_no_record_has_is_refused(name: str, values: list[Any], said: str) -> None:
    with pytest.raises(StreamproofError, match=said):
        read_parquet(written(with_column(name, values)), SCHEMA.names)


def test_a_gap_in_a_required_column_is_refused() -> None:
    whole = table_of([make_record()])
    number = SCHEMA.get_field_index("run")
    gap = whole.set_column(number, pa.field("run", pa.int32()), pa.array([None], pa.int32()))
    with pytest.raises(StreamproofError, match="run has empty values"):
        table.check_values(gap)


def other_schemas() -> list[pa.Table]:
    whole = table_of([make_record()])
    number = SCHEMA.get_field_index("run")
    return [
        whole.drop_columns(["error"]),
        whole.append_column("more", pa.array([1])),
        whole.set_column(number, pa.field("run", pa.int64(), nullable=False), pa.array([0], pa.int64())),
        whole.set_column(number, pa.field("run", pa.int32()), pa.array([0], pa.int32())),
        whole.set_column(number, "run", pa.ExtensionArray.from_storage(pa.bool8(), pa.array([0], pa.int8()))),
        whole.select(SCHEMA.names[::-1]),
    ]


@pytest.mark.parametrize("other", other_schemas())
def test_other_columns_or_types_are_refused(other: pa.Table) -> None:
    with pytest.raises(StreamproofError, match="its columns are not those of request records"):
        read_parquet(written(other))


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no parquet at all"])
def test_what_is_no_parquet_is_refused(content: bytes) -> None:
    with pytest.raises(StreamproofError, match="cannot be used"):
        read_parquet(io.BytesIO(content))


def test_a_file_cut_short_is_refused() -> None:
    raw = written(table_of(healthy_records([0.1] * 50))).getvalue()
    with pytest.raises(StreamproofError, match="cannot be used"):
        read_parquet(io.BytesIO(raw[:-20]))


def test_single_columns_can_be_read() -> None:
    assert read_parquet(written(table_of([make_record(run=3)])), ["run"]).to_pydict() == {"run": [3]}


def test_only_what_the_report_needs_is_read() -> None:
    read = read_parquet(written(table_of([make_failure(Outcome.CUT)])))
    assert read.column_names == list(REPORTED)
    assert "chunk_s" not in read.column_names
