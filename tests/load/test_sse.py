from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.load.sse import SseParser


def parse(stream: bytes, cuts: list[int] | None = None) -> list[bytes]:
    parser = SseParser()
    bounds = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts or [])})
    return [event for start, end in pairwise(bounds) for event in parser.feed(stream[start:end])]


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\n", [b"a"]),
        (b"data:a\n\n", [b"a"]),
        (b"data:  a \n\n", [b" a "]),  # one leading space is the separator's
        (b"data: a\r\n\r\n", [b"a"]),
        (b"data: a\r\r", [b"a"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"\n\n\ndata: a\n\n\n", [b"a"]),
        (b": comment\n\ndata: a\n: in between\ndata: b\n\n", [b"a\nb"]),
        (b"event: x\nid: 1\nretry: 5\ndata: a\n\n", [b"a"]),
        (b"event: x\n\n", []),  # an event without data is none
        (b"data\n\n", [b""]),
        (b"data:\n\n", [b""]),
        (b"data\ndata\n\n", [b"\n"]),
        (b"database: a\n\n", []),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [b"a"]),  # a byte order mark counts at the beginning only
        (b"data: a\n", []),  # not ended by an empty line
        (b"data: a", []),
        (b"", []),
        (
            b"data: \x85\xe2\x80\xa8\x0b\x0c\n\n",
            [b"\x85\xe2\x80\xa8\x0b\x0c"],
        ),  # these end lines of text, not of events
    ],
)
def test_examples_of_the_standard(stream: bytes, events: list[bytes]) -> None:
    assert parse(stream) == events
    assert parse(stream, list(range(len(stream)))) == events


def test_a_line_feed_after_a_return_at_the_end_of_a_piece_is_no_empty_line() -> None:
    parser = SseParser()
    assert parser.feed(b"data: a\r") == []
    assert parser.feed(b"\ndata: b\r") == []
    assert parser.feed(b"\n\r") == [b"a\nb"]
    assert parser.feed(b"\n") == []


LINES = st.sampled_from(
    [
        b"data: x",
        b"data:y",
        b"data",
        b"",
        b"",
        b": c",
        b"id: 7",
        "data: né日本".encode(),
        b"data: " + b"z" * 300,
        b"junk",
    ]
)
STREAMS = st.lists(st.tuples(LINES, st.sampled_from([b"\n", b"\r\n", b"\r"]))).map(
    lambda lines: b"".join(line + end for line, end in lines)
)


@given(stream=STREAMS, cuts=st.lists(st.integers(0, 5000)))
def test_any_split_gives_the_same_events(stream: bytes, cuts: list[int]) -> None:
    assert parse(stream, cuts) == parse(stream)


@given(payloads=st.lists(st.binary(min_size=1).map(lambda raw: raw.replace(b"\r", b"-").replace(b"\n", b"-"))))
def test_what_was_sent_arrives(payloads: list[bytes]) -> None:
    stream = b"".join(b"data: " + payload + b"\n\n" for payload in payloads)
    assert parse(stream) == payloads


def test_a_line_in_many_pieces_is_joined_once() -> None:
    """Joining at every piece would copy the line again and again: quadratic in its length."""
    parser = SseParser()
    pieces = 20_000
    parser.feed(b"data: ")
    for _ in range(pieces):
        assert parser.feed(b"x" * 50) == []
    assert len(parser._partial) == pieces + 1
    (event,) = parser.feed(b"\n\n")
    assert event == b"x" * 50 * pieces
