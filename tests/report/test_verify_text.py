import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.report.verify_text import commands_in, printable


@given(st.text(st.characters(codec=None), max_size=60), st.integers(4, 80))  # lone surrogates too
def test_nothing_that_a_terminal_obeys_is_left_and_nothing_is_longer_than_asked_for(text: str, most: int) -> None:
    shown = printable(text, most)
    assert shown.isprintable()
    assert len(shown) <= most
    shown.encode()  # no lone surrogate is left
    assert commands_in(shown) is None


@given(st.text(st.characters(categories=["L", "N", "P", "S"]), max_size=60))
def test_honest_text_is_shown_as_it_is(text: str) -> None:
    assert printable(text, 80) == text


def test_what_is_cut_off_is_said_to_be() -> None:
    assert printable("x" * 10_000_000, 10) == "xxxxxxx..."
    assert printable("x" * 10, 10) == "x" * 10


@pytest.mark.parametrize(
    "text",
    [
        "\x1b]0;owned\x07",
        "\x9b31m",
        "a\rb",
        "\x00",
        "\x7f",
        "\b",
        "\u202egpj.exe",
        "\u2066",
        "\u2028",
        "\u200f",
    ],
)
def test_every_command_is_found_wherever_it_stands(text: str) -> None:
    assert commands_in(text) == text
    assert commands_in({"a": [1, None, {"b": text}]}) == text
    assert commands_in({"a": {text: 1}}) == text
    assert commands_in(json.loads(json.dumps([text]))) == text


@pytest.mark.parametrize("text", ["", "two\nlines\tand a tab", "Grüße, 模型, 🙂", "\\u001b"])
def test_what_is_no_command_is_left_alone(text: str) -> None:
    assert commands_in({"a": [text]}) is None
