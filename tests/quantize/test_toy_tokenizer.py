"""The toy's tokenizer: lossless, Qwen's cuts, special tokens whole, the same bytes for the same text."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from quantize.toy.tokenizer import (
    END_OF_TEXT,
    PLAIN_TOKENS,
    SPECIAL_TOKENS,
    TURN_END,
    TURN_START,
    generation_config,
    token_id,
    tokenizer_config,
    train,
)

VOCAB = 300
TEXTS = [f"The caller asks for branch {number}; we'll book the car in at half past nine." for number in range(200)]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train(TEXTS, vocab=VOCAB)


def test_same_text_gives_same_bytes(tokenizer: Tokenizer) -> None:
    assert train(list(TEXTS), vocab=VOCAB).to_str() == tokenizer.to_str()


def test_other_text_gives_another_tokenizer(tokenizer: Tokenizer) -> None:
    other = [text.replace("branch", "garage") for text in TEXTS]
    assert train(other, vocab=VOCAB).to_str() != tokenizer.to_str()


def test_ids_are_dense_and_the_added_tokens_come_last(tokenizer: Tokenizer) -> None:
    assert sorted(tokenizer.get_vocab().values()) == list(range(VOCAB))
    added = [*SPECIAL_TOKENS, *PLAIN_TOKENS]
    assert [token_id(tokenizer, token) for token in added] == list(range(VOCAB - len(added), VOCAB))


def test_markers_are_single_tokens_and_only_special_ones_vanish_when_decoded(tokenizer: Tokenizer) -> None:
    text = f"{TURN_START}assistant\n<think>\n\n</think>\n\nWe'll book it.{TURN_END}\n{END_OF_TEXT}"
    ids = tokenizer.encode(text).ids
    for marker in (TURN_START, TURN_END, END_OF_TEXT, "<think>", "</think>"):
        assert ids.count(token_id(tokenizer, marker)) == 1
    assert tokenizer.decode(ids) == "assistant\n<think>\n\n</think>\n\nWe'll book it.\n"
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


def test_digits_stand_alone_and_contractions_are_cut(tokenizer: Tokenizer) -> None:
    cuts = [cut for cut, _ in tokenizer.pre_tokenizer.pre_tokenize_str("on 12; we'll do it\n\n")]
    assert [cut.replace("Ġ", " ").replace("Ċ", "\n") for cut in cuts] == [
        *("on", " ", "1", "2", ";", " we", "'ll", " do", " it", "\n\n"),
    ]


@given(text=st.text(st.characters(codec="utf-8"), max_size=60))
def test_any_text_survives_up_to_normalization(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text).ids
    assert tokenizer.decode(ids, skip_special_tokens=False) == unicodedata.normalize("NFC", text)


def test_too_little_text_is_refused_with_the_sizes() -> None:
    with pytest.raises(ValueError, match=r"filled \d+ of 2048 .* train on more text"):
        train(["one short line"], vocab=2048)


def test_unknown_token_has_no_id(tokenizer: Tokenizer) -> None:
    with pytest.raises(KeyError, match="nowhere"):
        token_id(tokenizer, "<|nowhere|>")


def test_a_reply_ends_with_its_turn_or_the_document(tokenizer: Tokenizer) -> None:
    config = generation_config(tokenizer)
    assert config["eos_token_id"] == [token_id(tokenizer, TURN_END), token_id(tokenizer, END_OF_TEXT)]
    assert config["do_sample"] is False
    assert tokenizer_config(4096)["model_max_length"] == 4096
    assert tokenizer_config(4096)["eos_token"] == TURN_END
