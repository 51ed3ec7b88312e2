"""Tables of CUDA graph use, as vLLM 0.26.0 itself printed them."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from bench.engine.graph_tables import GraphTableReader
from bench.engine.log_lines import LineSplitter, LogLine
from bench.observe.observations import GraphTable

PRINTED = Path(__file__).parents[1] / "explain" / "graphs" / "printed_by_vllm.log"
"""Written by the release's own `CUDAGraphLogging` through its own logger, with steps that we made up."""


def lines_of(raw: bytes) -> list[LogLine]:
    splitter = LineSplitter()
    return [*splitter.feed(raw), *splitter.flush()]


def read(lines: list[LogLine]) -> list[GraphTable]:
    reader = GraphTableReader(run=2)
    return [table for number, line in enumerate(lines) if (table := reader.feed(line, float(number)))]


def test_tables_are_read_to_the_last_row() -> None:
    first, second = read(lines_of(PRINTED.read_bytes()))
    assert first.run == 2
    assert first.mode == "FULL_AND_PIECEWISE"
    assert first.capture_sizes == (5, 10, 20, 40, 80, 160, 320, 640, 1025, 1535, 2050, 3070, 4095)
    rows = [(row.tokens, row.padded, row.mode, row.count) for row in first.steps]
    assert rows[:3] == [(5, 5, "FULL", 312), (10, 10, "FULL", 255), (15, 20, "FULL", 198)]
    assert (1567, 2050, "PIECEWISE", 12) in rows
    assert (6480, 6480, "NONE", 3) in rows
    assert (len(rows), sum(row.count for row in first.steps)) == (10, 940)
    assert [row.count for row in second.steps] == [100, 4, 1]
    assert second.t > first.t


def test_a_table_that_a_card_made() -> None:
    """From the log behind evidence/h200/prefill-profile-20261130: full, piecewise and no graphs."""
    lines = lines_of((Path(__file__).parent / "data" / "h200-graph-table.log").read_bytes())
    (table,) = read(lines)
    assert table.capture_sizes[-1] == 4095
    counts: dict[str, int] = {}
    for row in table.steps:
        counts[row.mode] = counts.get(row.mode, 0) + row.count
    assert counts == {"FULL": 41, "PIECEWISE": 38, "NONE": 9}
    assert sum((row.padded - row.tokens) * row.count for row in table.steps) == 22_090


def test_the_time_is_that_of_the_last_line() -> None:
    lines = lines_of(PRINTED.read_bytes())
    first, _ = read(lines)
    assert lines[int(first.t)].message == ""
    assert lines[int(first.t) - 1].message.startswith("| 55")


def test_processes_that_write_at_once_do_not_disturb_each_other() -> None:
    raw = PRINTED.read_bytes()
    other = lines_of(raw.replace(b"EngineCore pid", b"EngineCore_DP1 pid"))
    woven = [line for pair in zip(lines_of(raw), other, strict=True) for line in pair]
    assert len(read(woven)) == 4


def test_what_is_cut_off_or_something_else_gives_no_table() -> None:
    lines = lines_of(PRINTED.read_bytes())
    begin = next(number for number, line in enumerate(lines) if "Settings" in line.message)
    assert read(lines[: begin + 9]) == []
    assert read([line for line in lines if "Mode:" not in line.message]) == []
    assert read(lines_of(b"| 5 | 5 | 0 | FULL | 3 |\n\n- Mode: FULL\n")) == []


@given(st.binary(max_size=300))
def test_any_bytes_are_survived(noise: bytes) -> None:
    raw = PRINTED.read_bytes()
    middle = raw.index(b"| 35 ")
    tables = read(lines_of(raw[:middle] + noise + raw[middle:]))
    assert len(tables) <= 3
