import json
from pathlib import Path

import numpy as np
import pytest

from bench.errors import UsageError
from bench.workload.tokens import CheckpointTokenizer
from quantize.checkpoint import TOY
from quantize.target import Calibration
from quantize.text import token_sequences


def calibration(**changes: object) -> Calibration:
    values = {"recipe": "cpu", "samples": 2, "tokens": 1500, "seed": 1, "batch_tokens": 1}
    return Calibration.model_validate({**values, **changes})


def test_calls_of_the_recipe_the_same_for_the_same_seed() -> None:
    first = token_sequences(calibration(), TOY)
    assert first.shape == (2, 1500)
    assert token_sequences(calibration(), TOY) == first
    assert token_sequences(calibration(seed=2), TOY) != first
    ids = np.frombuffer(first.content, "<i4").reshape(first.shape)
    tokenizer = CheckpointTokenizer.from_folder(TOY)
    text = "".join(tokenizer.token(number) for number in ids[0][:12])
    assert text.startswith("<|im_start|>system")


def test_more_samples_begin_with_the_fewer_ones() -> None:
    assert token_sequences(calibration(samples=3), TOY).content.startswith(token_sequences(calibration(), TOY).content)


def test_calls_that_are_too_short_say_how_long_they_are() -> None:
    with pytest.raises(UsageError, match=r"at most \d+ tokens long; calibration.tokens is 5000"):
        token_sequences(calibration(tokens=5000), TOY)


def dataset(folder: Path, *rows: object) -> Calibration:
    path = folder / "text.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Calibration(dataset=str(path), samples=2, tokens=16, seed=1, batch_tokens=1)


def test_a_dataset_is_packed(tmp_path: Path) -> None:
    rows = [{"token_ids": list(range(10))}, {"text": "good morning, how can I help you today? " * 3}]
    messages = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "good morning"}]
    found = token_sequences(dataset(tmp_path, *rows, {"messages": messages}), TOY)
    assert found.shape == (2, 16)


@pytest.mark.parametrize("row", [{"other": 1}, {"token_ids": [-1]}, {"token_ids": [99999]}, {"text": 1}, [1]])
def test_a_row_that_is_none(tmp_path: Path, row: object) -> None:
    with pytest.raises(UsageError, match="line 1 has none of them"):
        token_sequences(dataset(tmp_path, row), TOY)


def test_a_dataset_that_is_too_small_or_missing_or_no_json(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has text for 0 samples of 16 tokens; 2 are asked for"):
        token_sequences(dataset(tmp_path, {"token_ids": [1, 2]}), TOY)
    broken = dataset(tmp_path)
    (tmp_path / "text.jsonl").write_text("{")
    with pytest.raises(UsageError, match="line 1 is not JSON"):
        token_sequences(broken, TOY)
    with pytest.raises(UsageError, match="cannot be read"):
        token_sequences(calibration(recipe=None, dataset=str(tmp_path / "nowhere")), TOY)
