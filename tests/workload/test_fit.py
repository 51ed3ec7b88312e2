from __future__ import annotations

import re
from itertools import repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import StreamproofError
from bench.seeds import generator
from bench.workload.fit import Fitter
from bench.workload.wording import Sentence, table

COMMON = table("common")
SENTENCES = [
    Sentence("I would like a full service on Monday at nine o'clock.", 2),
    Sentence("It is due.", 0),
    Sentence("Would that be possible?", 0),
]


def words(text: str) -> int:
    """Words, marks and line breaks; every piece of text adds up."""
    return len(re.findall(r"\w+|[^\w\s]|\n", text))


def fitter(*, keeps_last: bool = False) -> Fitter:
    return Fitter(words, COMMON["inside"]["reply"], COMMON["front"]["reply"], keeps_last=keeps_last)


@given(st.integers(1, 400), st.integers(0, 20), st.booleans(), st.booleans())
def test_a_text_has_exactly_the_length_asked_for(target: int, seed: int, keeps_last: bool, front: bool) -> None:
    text = fitter(keeps_last=keeps_last).text(
        SENTENCES, repeat(Sentence("There is room for more of this.", 0)), target, generator(seed), front=front
    )
    assert words(text) == target
    assert text == text.strip()


@given(st.integers(1, 3000), st.integers(0, 20), st.integers(1, 90))
def test_a_document_has_exactly_the_length_asked_for(target: int, seed: int, size: int) -> None:
    lines = (f"{' '.join(['word'] * (1 + place % size))}\n" for place in range(100_000))
    text = fitter().document(lines, target, generator(seed))
    assert words(text) == target
    assert not text.endswith("\n")


def test_a_text_with_room_says_everything_in_order() -> None:
    text = fitter().text(SENTENCES, iter(()), 60, generator(1), front=False)
    places = [text.index(sentence.text) for sentence in SENTENCES]
    assert places == sorted(places)


def test_without_room_the_heaviest_sentence_is_kept() -> None:
    text = fitter().text(SENTENCES, iter(()), words(SENTENCES[0].text), generator(1), front=True)
    assert text == SENTENCES[0].text


def test_of_equal_sentences_the_longest_is_kept() -> None:
    equal = [Sentence("One, two, three.", 1), Sentence("One, two, three, four, five.", 1)]
    assert fitter().text(equal, iter(()), words(equal[1].text), generator(1), front=False) == equal[1].text


def test_one_filler_is_taken_rather_than_two() -> None:
    fits = Fitter(words, ["Good.", "I am still with you, sir.", "Fine, then, as you wish."])
    for seed in range(20):
        text = fits.text([Sentence("It is ready.", 0)], iter(()), 4 + 8, generator(seed), front=False)
        assert text in {"It is ready. I am still with you, sir.", "It is ready. Fine, then, as you wish."}


def test_a_question_stays_last() -> None:
    for seed in range(30):
        assert fitter().text(SENTENCES, iter(()), 40, generator(seed), front=True).endswith(SENTENCES[2].text)


def test_a_statement_stays_last_only_where_that_is_asked_for() -> None:
    statements = SENTENCES[:2]
    kept = [fitter(keeps_last=True).text(statements, iter(()), 40, generator(seed), front=False) for seed in range(20)]
    free = [fitter().text(statements, iter(()), 40, generator(seed), front=False) for seed in range(20)]
    assert all(text.endswith(statements[1].text) for text in kept)
    assert not any(text.endswith(statements[1].text) for text in free)


def test_an_opener_comes_first_only_where_it_may() -> None:
    openers = tuple(COMMON["front"]["reply"])
    for seed in range(20):
        assert fitter().text(SENTENCES, iter(()), 40, generator(seed), front=True).startswith(openers)
        assert fitter().text(SENTENCES, iter(()), 40, generator(seed), front=False).startswith(SENTENCES[0].text)


def test_an_opener_does_not_repeat_the_first_word() -> None:
    fits = Fitter(words, ["Fine.", "So it is."], ["Good.", "Well."])
    text = fits.text([Sentence("Good, I have that.", 0)], iter(()), 20, generator(1), front=True)
    assert text.startswith("Well. Good, I have that.")


def test_where_no_opener_fits_there_is_none() -> None:
    fits = Fitter(words, ["Fine."], ["This opener is far too long for it."])
    assert fits.text([Sentence("I have that.", 0)], iter(()), 6, generator(1), front=True) == "I have that. Fine."


def test_more_is_taken_while_there_is_room_and_no_longer() -> None:
    more = iter([Sentence(f"This is number {number} of all the sentences that may be said.", 0) for number in range(9)])
    text = fitter().text(SENTENCES, more, 60, generator(1), front=False)
    assert "This is number 0 of" in text
    assert len(list(more)) > 4


def test_sentences_that_never_fit_are_given_up() -> None:
    endless = repeat(Sentence(" ".join(["long"] * 500), 0))
    assert words(fitter().text(SENTENCES, endless, 80, generator(1), front=False)) == 80


def test_lines_that_are_too_long_are_passed_over() -> None:
    lines = ["first line\n", f"{'much too long ' * 50}\n", "second line\n", *[f"{'long ' * 200}\n"] * 10, "never\n"]
    text = fitter().document(iter(lines), 60, generator(1))
    assert text.startswith("first line\nsecond line\n")
    assert "too long" not in text
    assert "never" not in text


def test_a_section_that_does_not_fit_ends_the_document() -> None:
    lines = ["first line\n", f"## Heading\n{'much too long ' * 50}\n", "a line of that section\n"]
    assert "section" not in fitter().document(iter(lines), 60, generator(1))


def test_fillers_are_not_repeated_while_others_fit() -> None:
    text = fitter().document(iter(()), 60, generator(1))
    sentences = re.findall(r"[^.?!]+[.?!]", text)
    long = [sentence.strip() for sentence in sentences if words(sentence) > 3]
    assert len(long) == len(set(long))


@pytest.mark.parametrize("target", [1, 2, 3])
def test_the_shortest_texts_are_words(target: int) -> None:
    assert words(Fitter(words, ["Good.", "Fine, then."]).text([], iter(()), target, generator(1), front=True)) == target


def test_a_length_that_nothing_has_is_an_error() -> None:
    with pytest.raises(StreamproofError, match="exactly 1 tokens"):
        Fitter(lambda text: 2 * words(text), ["Good."]).text([], iter(()), 1, generator(1), front=False)
