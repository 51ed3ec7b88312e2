from __future__ import annotations

from statistics import median
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.truth.replies import Ask, Step, Writer, drawn, token_counts
from tests.truth.script import Behaviour, Law


def ask(**changes: Any) -> Ask:
    values: dict[str, Any] = {
        "number": 0,
        "chat": True,
        "stream": True,
        "wants_usage": True,
        "output_tokens": 100,
        "prompt_tokens": 50,
        "cached_tokens": 16,
        "prompt": "hello",
        "model": "truth",
    }
    return Ask(**{**values, **changes})


def steps(behaviour: Behaviour, **changes: Any) -> list[Step]:
    return Writer(ask(**changes), behaviour).steps()


@given(tokens=st.integers(0, 300), sizes=st.lists(st.integers(1, 7), min_size=1, max_size=5))
def test_chunks_add_up_to_the_reply(tokens: int, sizes: list[int]) -> None:
    counts = token_counts(Behaviour(chunk_tokens=sizes), tokens)
    assert sum(counts) == tokens
    assert all(count > 0 for count in counts)
    assert counts[:-1] == [*sizes, *[sizes[-1]] * len(counts)][: max(0, len(counts) - 1)]


def test_a_hundred_tokens_in_thirty_four_chunks() -> None:
    made = steps(Behaviour(chunk_tokens=[3], ttft_s=0.2, gap_s=0.01))
    chunks = [step for step in made if step.what == "chunk"]
    assert len(chunks) == 34
    assert sum(step.tokens for step in chunks) == 100
    assert [step.at_s for step in chunks] == pytest.approx([0.2 + 0.01 * number for number in range(34)])
    assert made[-1].what == "end"


@given(
    behaviour=st.builds(
        Behaviour,
        ttft_s=st.floats(0, 1),
        gap_s=st.lists(st.floats(0, 1), min_size=1, max_size=4),
        headers_s=st.floats(0, 1),
        role_s=st.none() | st.floats(0, 2),
        chunk_tokens=st.lists(st.integers(1, 9), min_size=1, max_size=3),
        fault=st.sampled_from(["none", "cut", "close", "hang", "error_event", "not_json", "no_chunk", "nothing"]),
        fault_after=st.integers(0, 9),
        content_length=st.booleans(),
        one_write=st.booleans(),
        split_writes=st.integers(1, 4),
        comments=st.booleans(),
        echo_prompt=st.booleans(),
    ),
    output_tokens=st.integers(0, 30),
)
def test_steps_are_in_order_and_say_what_they_promise(behaviour: Behaviour, output_tokens: int) -> None:
    made = steps(behaviour, output_tokens=output_tokens)
    assert made[0].what == "headers"
    assert made[0].at_s == behaviour.headers_s
    assert min(step.at_s for step in made) == behaviour.headers_s
    whole = behaviour.fault in {"none", "error_event", "not_json", "no_chunk", "nothing"}
    assert (made[-1].what == "end") == whole
    if behaviour.fault == "none":
        assert sum(step.tokens for step in made) == output_tokens
    else:
        assert sum(step.tokens for step in made) <= output_tokens
    if behaviour.content_length:
        head, _, body = b"".join(step.data for step in made).partition(b"\r\n\r\n")
        promised = int(head.rpartition(b"content-length: ")[2])
        assert promised == len(body) + (0 if whole else 1)


def test_pieces_cut_characters_in_two() -> None:
    (first, second) = [step for step in steps(Behaviour(split_writes=2), output_tokens=1) if step.what == "chunk"]
    with pytest.raises(UnicodeDecodeError):
        first.data.decode()
    assert b" n\xc3\xa9" in first.data + second.data
    assert (first.tokens, second.tokens) == (1, 0)


def test_usage_is_sent_when_asked_for_and_counts_what_was_made() -> None:
    body = b"".join(step.data for step in steps(Behaviour(content_length=True), output_tokens=5))
    usage = orjson.loads(body.split(b"data: ")[-2])["usage"]
    assert usage == {
        "prompt_tokens": 50,
        "completion_tokens": 5,
        "total_tokens": 55,
        "prompt_tokens_details": {"cached_tokens": 16},
    }
    unasked = b"".join(step.data for step in steps(Behaviour(), wants_usage=False))
    assert b"usage" not in unasked


def test_a_reply_that_is_not_streamed_is_one_object_when_the_last_token_is_due() -> None:
    made = steps(Behaviour(ttft_s=0.1, gap_s=0.1), stream=False, output_tokens=3)
    assert [step.what for step in made] == ["chunk", "end"]
    assert made[0].at_s == pytest.approx(0.3)
    reply = orjson.loads(made[0].data.partition(b"\r\n\r\n")[2])
    assert reply["choices"][0]["message"]["content"].count(" ") == 3
    assert reply["usage"]["completion_tokens"] == 3


LAW = Law(e2e_p50_s=0.6, e2e_p95_s=0.765, slowdown=0.05, free=4)


def end_of(behaviour: Behaviour, chunks: int = 34) -> float:
    assert isinstance(behaviour.gap_s, float)
    return behaviour.ttft_s + (chunks - 1) * behaviour.gap_s


def test_the_law_has_its_quantiles() -> None:
    ends = sorted(
        end_of(drawn(LAW, Behaviour(), seed=1, number=number, in_flight=1, chunks=34)) for number in range(4000)
    )
    assert median(ends) == pytest.approx(0.6, rel=0.02)
    assert ends[int(0.95 * len(ends))] == pytest.approx(0.765, rel=0.02)


@given(number=st.integers(0, 1000), in_flight=st.integers(1, 200), chunks=st.integers(1, 50))
def test_the_law_slows_down_with_the_requests_in_flight(number: int, in_flight: int, chunks: int) -> None:
    alone = drawn(LAW, Behaviour(), seed=1, number=number, in_flight=1, chunks=chunks)
    busy = drawn(LAW, Behaviour(), seed=1, number=number, in_flight=in_flight, chunks=chunks)
    assert end_of(busy, chunks) == pytest.approx(end_of(alone, chunks) * (1 + 0.05 * max(0, in_flight - 4)))
    if chunks > 1:
        assert busy.ttft_s == pytest.approx(0.35 * end_of(busy, chunks))
