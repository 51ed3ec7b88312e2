"""Training documents: the file, the token array, the windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from quantize.toy.documents import Tokens, encode, read_documents, write_documents
from quantize.toy.tokenizer import END_OF_TEXT, token_id, train

if TYPE_CHECKING:
    from pathlib import Path

    from tokenizers import Tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train([f"call {number} for booking" for number in range(100)], vocab=280)


def tokens_of(lengths: list[int]) -> Tokens:
    ids = np.concatenate([np.full(length, number, dtype=np.int32) for number, length in enumerate(lengths)])
    return Tokens(ids, ids % 2 == 1, np.cumsum([0, *lengths])[:-1])


def test_documents_come_back_as_written(tmp_path: Path) -> None:
    path = tmp_path / "new" / "corpus.jsonl"
    texts = ["one\nline", "Zoë says “hello”", ""]
    assert write_documents(path, texts, limit_bytes=10_000) == 3
    assert list(read_documents(path)) == texts


def test_writing_stops_before_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    line = len('{"text": "0123456789"}\n')
    assert write_documents(path, ["0123456789"] * 10, limit_bytes=3 * line + 1) == 3
    assert path.stat().st_size == 3 * line


@pytest.mark.parametrize("line", ["not json", '["a list"]', '{"words": "x"}'])
def test_a_bad_line_is_named_by_number(tmp_path: Path, line: str) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"text": "fine"}\n' + line + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"corpus\.jsonl:2: not a JSON object"):
        list(read_documents(path))


def test_every_document_ends_with_the_end_token(tokenizer: Tokenizer) -> None:
    texts = [f"call {number}" for number in range(600)]  # more than one batch of the encoder
    tokens = encode(tokenizer, texts)
    end = token_id(tokenizer, END_OF_TEXT)
    assert (tokens.ids == end).sum() == 600
    bounds = [*tokens.starts.tolist(), len(tokens.ids)]
    for number in (0, 255, 256, 599):
        document = tokens.ids[bounds[number] : bounds[number + 1]].tolist()
        assert tokenizer.decode(document[:-1]) == texts[number]
        assert document[-1] == end


def test_held_out_documents_are_the_last_ones_and_in_no_window() -> None:
    trained, held_out = tokens_of([3, 4, 5, 2]).split(2)
    assert trained.ids.tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert trained.starts.tolist() == [0, 3]
    assert trained.spoken.tolist() == [False] * 3 + [True] * 4
    assert held_out.ids.tolist() == [2, 2, 2, 2, 2, 3, 3]
    assert held_out.starts.tolist() == [0, 5]
    assert held_out.spoken.tolist() == [False] * 5 + [True] * 2


@pytest.mark.parametrize("held_out", [0, 2, 3])
def test_holding_out_none_or_all_is_refused(held_out: int) -> None:
    with pytest.raises(ValueError, match=f"cannot hold out {held_out} of 2"):
        tokens_of([3, 4]).split(held_out)


def test_a_window_longer_than_all_text_is_refused() -> None:
    with pytest.raises(ValueError, match="7 tokens cannot fill a window of 8"):
        tokens_of([3, 4]).windows(1, 8, np.random.default_rng(0))


@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=8),
    length=st.integers(1, 12),
    rows=st.integers(1, 4),
    seed=st.integers(0, 99),
)
def test_windows_begin_with_a_document_and_are_contiguous(
    lengths: list[int], length: int, rows: int, seed: int
) -> None:
    assume(length <= sum(lengths))
    ids = np.arange(sum(lengths), dtype=np.int32)
    tokens = Tokens(ids, ids % 3 == 0, np.cumsum([0, *lengths])[:-1])
    windows = tokens.windows(rows, length, np.random.default_rng(seed))
    assert windows.ids.shape == (rows, length)
    assert set(windows.ids[:, 0].tolist()) <= set(tokens.starts.tolist())
    assert (np.diff(windows.ids, axis=1) == 1).all()
    assert (windows.spoken == (windows.ids % 3 == 0)).all()
    again = tokens.windows(rows, length, np.random.default_rng(seed))
    assert (windows.ids == again.ids).all()


def test_replies_and_nothing_else_are_marked_as_spoken(tokenizer: Tokenizer) -> None:
    header = "<|im_start|>assistant\n"
    documents = [
        f"<|im_start|>user\ncall 1<|im_end|>\n{header}booking 2<|im_end|>\n{header}for 3<|im_end|>\n",
        f"<|im_start|>user\nassistant\n<|im_end|>\n{header}<|im_end|>\n",
    ]
    tokens = encode(tokenizer, documents)
    marked = tokenizer.decode(tokens.ids[tokens.spoken].tolist(), skip_special_tokens=False)
    assert marked == "booking 2<|im_end|>for 3<|im_end|><|im_end|>"


def test_text_without_replies_has_none_marked(tokenizer: Tokenizer) -> None:
    assert not encode(tokenizer, ["call 1<|im_end|>"]).spoken.any()
