from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.workload.spoken import clock, number, spelled


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0, "zero"),
        (13, "thirteen"),
        (20, "twenty"),
        (21, "twenty-one"),
        (100, "one hundred"),
        (149, "one hundred and forty-nine"),
        (1000, "one thousand"),
        (1007, "one thousand and seven"),
        (12_500, "twelve thousand five hundred"),
        (999_999, "nine hundred and ninety-nine thousand nine hundred and ninety-nine"),
    ],
)
def test_numbers_are_said_in_british_english(value: int, words: str) -> None:
    assert number(value) == words


@pytest.mark.parametrize("value", [-1, 1_000_000])
def test_numbers_without_words_are_refused(value: int) -> None:
    with pytest.raises(ValueError, match="no words for"):
        number(value)


@given(st.sets(st.integers(0, 999_999), min_size=2, max_size=2))
def test_two_numbers_never_sound_the_same(values: set[int]) -> None:
    assert len({number(value) for value in values}) == 2


@pytest.mark.parametrize(
    ("hour", "minute", "words"),
    [
        (8, 0, "eight o'clock"),
        (12, 15, "a quarter past twelve"),
        (13, 30, "half past one"),
        (12, 45, "a quarter to one"),
        (17, 45, "a quarter to six"),
    ],
)
def test_times_are_said_as_people_say_them(hour: int, minute: int, words: str) -> None:
    assert clock(hour, minute) == words


def test_registrations_are_spelled() -> None:
    assert spelled("AB12 CDE") == "A B one two C D E"
