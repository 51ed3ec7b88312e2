from __future__ import annotations

import string
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.load.reply import Exchange, ReplyReader, message_of, one_line
from bench.records import Outcome

PROMPT, ASKED = 20, 3
USAGE = {"prompt_tokens": PROMPT, "completion_tokens": ASKED, "total_tokens": PROMPT + ASKED}


def event(value: object) -> bytes:
    return b"data: " + (value if isinstance(value, bytes) else orjson.dumps(value)) + b"\n\n"


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def text(words: str, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "text": words, "finish_reason": finish, **more}]}


ROLE = delta(role="assistant", content="")
WHOLE = [
    ROLE,
    delta(content="a"),
    delta(content="b"),
    delta("length", content="c"),
    {"choices": [], "usage": USAGE},
    b"[DONE]",
]


def read(
    events: list[object], *, secret: str | None = None, status: int = 200, kind: str = "text/event-stream"
) -> Exchange:
    """Event number k arrives at second k + 1; the body ends at second 100."""
    reader = ReplyReader(prompt_tokens=PROMPT, output_tokens=ASKED, secret=secret)
    reader.sent_s = 0.0
    reader.head(status, kind, 0.5)
    for number, value in enumerate(events):
        reader.body(event(value), float(number + 1))
    return reader.complete(100.0)


def without(*indices: int) -> list[object]:
    return [value for index, value in enumerate(WHOLE) if index not in indices]


def test_a_whole_reply() -> None:
    exchange = read(list(WHOLE))
    assert exchange == Exchange(
        sent_s=0.0,
        headers_s=0.5,
        first_token_s=2.0,  # not the role-only chunk of second 1
        last_token_s=4.0,
        done_s=100.0,
        chunk_s=(2.0, 3.0, 4.0),
        prompt_tokens=PROMPT,
        cached_tokens=None,
        completion_tokens=ASKED,
        finish_reason="length",
        status=200,
        outcome=Outcome.OK,
        error="",
    )


@pytest.mark.parametrize(
    ("events", "outcome"),
    [
        (without(5), Outcome.NO_DONE),
        (without(4), Outcome.NO_USAGE),
        ([*without(3, 4, 5), delta(content="c"), WHOLE[4], b"[DONE]"], Outcome.NO_FINISH),
        (without(3, 5), Outcome.NO_DONE),  # neither [DONE] nor a finish reason: the body just ended
        ([ROLE, WHOLE[4], b"[DONE]"], Outcome.EMPTY),
        ([b"[DONE]"], Outcome.EMPTY),
        ([], Outcome.EMPTY),
        ([*without(4, 5), {"choices": [], "usage": {**USAGE, "completion_tokens": 2}}, b"[DONE]"], Outcome.SHORT),
        ([*without(4, 5), {"choices": [], "usage": {**USAGE, "completion_tokens": 4}}, b"[DONE]"], Outcome.SHORT),
        (
            [*without(4, 5), {"choices": [], "usage": {**USAGE, "prompt_tokens": 21}}, b"[DONE]"],
            Outcome.PROMPT_MISMATCH,
        ),
        ([*without(4, 5), {"choices": [], "usage": {"prompt_tokens": PROMPT}}, b"[DONE]"], Outcome.NO_USAGE),
        ([*without(4, 5), {"choices": [], "usage": {"completion_tokens": 3}}, b"[DONE]"], Outcome.NO_USAGE),
        ([*WHOLE[:2], {"error": {"message": "boom"}}, b"[DONE]"], Outcome.ENGINE_ERROR),
        ([*WHOLE[:2], {"object": "error", "message": "boom"}], Outcome.ENGINE_ERROR),
        ([*WHOLE[:2], {"error": "boom"}, *WHOLE[2:]], Outcome.ENGINE_ERROR),
        ([*WHOLE, b"{"], Outcome.BAD_REPLY),
        ([*WHOLE, b"7"], Outcome.BAD_REPLY),
        ([*WHOLE, {"choices": [7]}], Outcome.BAD_REPLY),
        ([*WHOLE, {"choices": 7}], Outcome.BAD_REPLY),
        ([*WHOLE, {"choices": [], "usage": {**USAGE, "prompt_tokens": "20"}}], Outcome.BAD_REPLY),
        ([*WHOLE, {"choices": [], "usage": {**USAGE, "prompt_tokens": True}}], Outcome.BAD_REPLY),
        ([*WHOLE, {"choices": [], "usage": {**USAGE, "completion_tokens": -3}}], Outcome.BAD_REPLY),
        ([*WHOLE, {"choices": [], "usage": 5}], Outcome.BAD_REPLY),
    ],
)
def test_what_a_reply_was(events: list[object], outcome: Outcome) -> None:
    exchange = read(events)
    assert exchange.outcome is outcome
    assert exchange.error
    assert exchange.done_s == 100.0


@pytest.mark.parametrize(
    "first",
    [
        delta(content="x"),
        delta(reasoning="x"),
        delta(reasoning_content="x"),
        delta(tool_calls=[{"index": 0, "function": {"name": "book", "arguments": ""}}]),
        delta(tool_calls=[{"index": 0, "function": {"arguments": "{"}}]),
        text("x"),
        text("", token_ids=[5]),
    ],
)
@pytest.mark.parametrize(
    "empty",
    [
        ROLE,
        delta(),
        delta(content=None),
        delta(content="", reasoning=None, reasoning_content=""),
        delta(tool_calls=[]),
        delta(tool_calls=[{"index": 0, "function": {"arguments": ""}}]),
        delta(tool_calls=[{"index": 0}]),
        text(""),
        text("", token_ids=[]),
        {"choices": [], "usage": None},
        {"id": "x"},
    ],
)
def test_the_first_token_is_the_first_that_is_not_empty(first: dict[str, Any], empty: dict[str, Any]) -> None:
    exchange = read([empty, first, *WHOLE[1:]])
    assert exchange.first_token_s == 2.0
    assert exchange.outcome is Outcome.OK


def test_cached_tokens_are_kept_when_reported() -> None:
    usage = {**USAGE, "prompt_tokens_details": {"cached_tokens": 16}}
    assert read([*without(4, 5), {"choices": [], "usage": usage}, b"[DONE]"]).cached_tokens == 16
    assert (
        read([*without(4, 5), {"choices": [], "usage": {**USAGE, "prompt_tokens_details": None}}]).cached_tokens is None
    )


def test_the_last_usage_counts_where_every_chunk_has_one() -> None:
    running = [{**delta(content="x"), "usage": {**USAGE, "completion_tokens": n}} for n in (1, 2)]
    assert read([*running, *WHOLE[3:]]).completion_tokens == ASKED


@pytest.mark.parametrize(
    ("status", "kind", "body", "error"),
    [
        (503, "application/json", b'{"error": {"message": "busy"}}', "503 (Retry-After: 7) busy"),
        (
            404,
            "application/json",
            b'{"object": "error", "message": "no such\\nmodel"}',
            "404 (Retry-After: 7) no such model",
        ),
        (404, "application/json", b'{"detail": "Not Found"}', "404 (Retry-After: 7) Not Found"),
        (400, "application/json", b'{"error": "bad"}', "400 (Retry-After: 7) bad"),
        (400, "application/json", b"[1]", "400 (Retry-After: 7) [1]"),
        (502, "text/html", b"<html><b>Bad\n Gateway</b></html>", "502 (Retry-After: 7) Bad Gateway"),
        (500, "text/event-stream", b"", "500 (Retry-After: 7)"),
    ],
)
def test_an_error_status(status: int, kind: str, body: bytes, error: str) -> None:
    reader = ReplyReader(prompt_tokens=PROMPT, output_tokens=ASKED)
    reader.head(status, kind, 0.5, retry_after="7")
    reader.body(body, 1.0)
    exchange = reader.complete(2.0)
    assert (exchange.outcome, exchange.status, exchange.error) == (Outcome.HTTP_ERROR, status, error)


def test_a_web_page_is_no_reply() -> None:
    reader = ReplyReader(prompt_tokens=PROMPT, output_tokens=ASKED)
    reader.head(200, "text/html; charset=utf-8", 0.5)
    for _ in range(10_000):
        reader.body(b"<p>Welcome</p>", 1.0)
    exchange = reader.complete(2.0)
    assert exchange.outcome is Outcome.BAD_REPLY
    assert "text/html" in exchange.error
    assert "Welcome" in exchange.error
    assert sum(map(len, reader._body)) == 4096


def test_a_stream_without_a_content_type_is_read() -> None:
    assert read(list(WHOLE), kind="").outcome is Outcome.OK
    assert read(list(WHOLE), kind="Text/Event-Stream; charset=utf-8").outcome is Outcome.OK


def test_a_reply_given_up_keeps_what_it_had() -> None:
    reader = ReplyReader(prompt_tokens=PROMPT, output_tokens=ASKED)
    reader.head(200, "text/event-stream", 0.5)
    reader.body(event(delta(content="x")), 1.0)
    exchange = reader.failed(Outcome.TIMEOUT, "too late", 9.0)
    assert exchange.outcome is Outcome.TIMEOUT
    assert (exchange.first_token_s, exchange.done_s, exchange.error) == (1.0, 9.0, "too late")


def test_the_key_stands_in_no_error() -> None:
    key = "sk-very-secret"
    exchange = read([{"error": {"message": f"Incorrect API key provided: {key}"}}], secret=key)
    assert exchange.error == "Incorrect API key provided: ***"
    cut = ReplyReader(prompt_tokens=1, output_tokens=1, secret=key).failed(Outcome.CUT, "x" * 295 + key, 1.0)
    assert key[:5] not in cut.error


@given(st.text())
def test_errors_are_one_line(raw: str) -> None:
    flat = one_line(raw)
    assert len(flat) <= 300
    assert flat.isprintable()
    assert flat == flat.strip()


@given(
    st.recursive(
        st.none() | st.integers(-9, 9) | st.text(string.ascii_letters),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["error", "message", "detail", "x"]), inner),
    )
)
def test_every_error_object_says_something(body: object) -> None:
    assert isinstance(message_of(body), str)


@given(
    cuts=st.lists(st.integers(0, 2000)),
    events=st.permutations(list(range(len(WHOLE)))).flatmap(
        lambda order: st.integers(0, len(order)).map(lambda length: order[:length])
    ),
    newline=st.sampled_from([b"\n", b"\r\n", b"\r"]),
)
def test_any_split_gives_the_same_result(cuts: list[int], events: list[int], newline: bytes) -> None:
    stream = b"".join(event(WHOLE[index]).replace(b"\n", newline) for index in events)

    def result(bounds: list[int]) -> Exchange:
        reader = ReplyReader(prompt_tokens=PROMPT, output_tokens=ASKED)
        reader.head(200, "text/event-stream", 0.5)
        for start, end in pairwise(bounds):
            reader.body(stream[start:end], 1.0)
        return reader.complete(2.0)

    split = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    assert result(split) == result([0, len(stream)])


@given(st.binary())
def test_no_bytes_make_it_fail(junk: bytes) -> None:
    reader = ReplyReader(prompt_tokens=PROMPT, output_tokens=ASKED)
    reader.head(200, "text/event-stream", 0.5)
    reader.body(b"data: " + junk + b"\n\n", 1.0)
    assert reader.complete(2.0).outcome in set(Outcome) - {Outcome.OK}
