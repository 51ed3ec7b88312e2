from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.engine.log_lines import LONGEST_LINE, LineSplitter, LogLine, parse_line


def split(*pieces: bytes) -> list[LogLine]:
    splitter = LineSplitter()
    lines = [line for piece in pieces for line in splitter.feed(piece)]
    return lines + splitter.flush()


def test_lines_are_numbered_as_an_editor_does() -> None:
    lines = split(b"one\n\nthree\n")
    assert [(line.number, line.text) for line in lines] == [(1, "one"), (3, "three")]


def test_a_line_comes_when_it_is_complete() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"half a ") == []
    assert [line.text for line in splitter.feed(b"line\nnext")] == ["half a line"]
    assert [line.text for line in splitter.flush()] == ["next"]
    assert splitter.flush() == []


def test_carriage_returns_separate_the_states_of_a_bar_and_windows_line_ends_count_once() -> None:
    lines = split(b"\rbar 1/2\rbar 2/2\nend\r\nlast")
    assert [(line.number, line.text) for line in lines] == [(1, "bar 1/2"), (1, "bar 2/2"), (2, "end"), (3, "last")]


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=5))
def test_the_same_bytes_give_the_same_lines_however_they_are_cut(data: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(data)]
    pieces = [data[start:end] for start, end in pairwise(edges)]
    assert split(*pieces) == split(data)


@given(st.binary(max_size=200))
def test_no_bytes_leave_terminal_control_in_a_line(data: bytes) -> None:
    for line in split(data):
        assert not any(ord(character) < 32 or ord(character) == 127 for character in line.text.replace("\t", ""))
        assert line.text


def test_a_runaway_line_is_cut_and_the_next_one_is_whole() -> None:
    huge = b"x" * (3 * LONGEST_LINE)
    first, second = split(huge[:100], huge[100:], b"\nnext\n")
    assert first.text == "x" * LONGEST_LINE
    assert (second.number, second.text) == (2, "next")


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"\x1b[0;36m(EngineCore pid=1)\x1b[0;0m up", "(EngineCore pid=1) up"),
        (b"\x1b]0;title\x07text", "text"),
        (b"\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"\x1b(Bplain\x00\x07", "plain"),
        (b"\xff caf\xc3\xa9", "\N{REPLACEMENT CHARACTER} caf\N{LATIN SMALL LETTER E WITH ACUTE}"),
        (b"blanks at the end  \t", "blanks at the end"),
        (b"eight-bit \xc2\x9b31mred\xc2\x85", "eight-bit 31mred"),
        ("right to \N{RIGHT-TO-LEFT OVERRIDE}left\N{LINE SEPARATOR}".encode(), "right to left"),
    ],
)
def test_terminal_control_and_bad_bytes(raw: bytes, text: str) -> None:
    assert parse_line(1, raw).text == text


@pytest.mark.parametrize(
    ("raw", "process", "level", "source", "message"),
    [
        (
            b"(EngineCore pid=42) WARNING 11-29 22:49:18 [jit_monitor.py:135] Triton kernel JIT",
            *("EngineCore", "WARNING", "jit_monitor.py:135", "Triton kernel JIT"),
        ),
        (b"INFO 11-30 00:42:03 [importing.py:53] Triton is", "", "INFO", "importing.py:53", "Triton is"),
        (b"(APIServer pid=1) INFO:     Started server", "APIServer", "INFO", "", "Started server"),
        (b"(APIServer pid=1) ValueError: no", "APIServer", "", "", "ValueError: no"),
        (b"(Worker pid=7) ERROR 11-30 00:42:35 [a.py:1]     raise X", "Worker", "ERROR", "a.py:1", "    raise X"),
        (b"DeepGEMM warmup:  45%|###", "", "", "", "DeepGEMM warmup:  45%|###"),
        (
            b"(RayWorkerWrapper pid=7, ip=192.0.2.9) ERROR 03-27 10:29:13 [worker_base.py:620] Error executing method",
            *("RayWorkerWrapper", "ERROR", "worker_base.py:620", "Error executing method"),
        ),
        (b"INFO 06-01 10:00:00 api_server.py:838] version 0.7.3", "", "INFO", "api_server.py:838", "version 0.7.3"),
        (b"INFORMATION is no level", "", "", "", "INFORMATION is no level"),
    ],
)
def test_the_prefixes_of_the_engine_are_taken_apart(
    raw: bytes, process: str, level: str, source: str, message: str
) -> None:
    line = parse_line(9, raw)
    assert (line.number, line.process, line.level, line.source, line.message) == (9, process, level, source, message)


def test_a_line_says_when_it_was_written() -> None:
    assert parse_line(1, b"(EngineCore pid=42) INFO 11-29 22:49:18 [core.py:1] up").clock == "11-29 22:49:18"
    assert parse_line(1, b"INFO:     Started server").clock == ""


def test_another_reading_of_a_line_can_be_given() -> None:
    splitter = LineSplitter(lambda number, raw: parse_line(number, raw.upper()))
    assert [line.text for line in splitter.feed(b"one\ntwo\n")] == ["ONE", "TWO"]
