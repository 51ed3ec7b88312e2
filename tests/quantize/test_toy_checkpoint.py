"""The committed checkpoint: as its provenance says, as its shape says, and its tokenizer can be trained again."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tokenizers import Tokenizer

from quantize.toy.layout import CHECKPOINT, TOKENIZER, TOKENIZER_TEXT, WEIGHTS
from quantize.toy.prepare import read_tokenizer_text
from quantize.toy.provenance import PROVENANCE, differences
from quantize.toy.shape import TOY, model_config, tensor_shapes
from quantize.toy.tokenizer import (
    CHAT_TEMPLATE,
    END_OF_TEXT,
    TURN_END,
    VISION_TOKEN,
    generation_config,
    token_id,
    tokenizer_config,
    train,
)

if TYPE_CHECKING:
    from pathlib import Path

BF16_EXPONENT = 0x7F80
LARGEST = 8_000_000


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(CHECKPOINT / TOKENIZER))


def read_safetensors(path: Path) -> tuple[dict[str, Any], bytes]:
    """Header and data: 8 bytes of header length, little-endian, then JSON, then the tensors."""
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    return json.loads(raw[8 : 8 + length]), raw[8 + length :]


def read_json(name: str) -> Any:
    return json.loads((CHECKPOINT / name).read_text(encoding="utf-8"))


def test_every_file_is_the_one_that_the_provenance_names() -> None:
    assert differences(CHECKPOINT) == []


def test_provenance_says_how_it_came_to_be() -> None:
    provenance = read_json(PROVENANCE)
    assert provenance["command"].startswith("python -m quantize.toy.train ")
    assert provenance["corpus"]["command"].startswith("python -m quantize.toy.prepare ")
    assert provenance["settings"]["seed"] >= 0
    assert provenance["settings"]["steps"] > 0
    assert provenance["device"]
    assert set(provenance["libraries"]) >= {"torch", "transformers", "tokenizers", "safetensors"}
    assert len(provenance["corpus"]["sha256"]) == 64
    assert len(provenance["corpus"]["workload_commit"]) == 40
    assert 0 < provenance["result"]["final_loss"]["decoder"] < math.log(TOY.vocab)


def test_weights_are_small_bf16_and_exactly_those_of_the_shape() -> None:
    assert (CHECKPOINT / WEIGHTS).stat().st_size <= LARGEST
    header, data = read_safetensors(CHECKPOINT / WEIGHTS)
    header.pop("__metadata__")
    assert {name: tuple(entry["shape"]) for name, entry in header.items()} == tensor_shapes(TOY)
    assert {entry["dtype"] for entry in header.values()} == {"BF16"}
    end = 0
    for entry in sorted(header.values(), key=lambda entry: int(entry["data_offsets"][0])):
        begin, end_of_this = entry["data_offsets"]
        assert begin == end
        assert end_of_this - begin == 2 * math.prod(entry["shape"])
        end = end_of_this
    assert end == len(data)


def test_no_weight_is_infinite_or_not_a_number() -> None:
    _, data = read_safetensors(CHECKPOINT / WEIGHTS)
    words = np.frombuffer(data, dtype="<u2")
    assert not ((words & BF16_EXPONENT) == BF16_EXPONENT).any()


def test_no_matrix_was_left_at_zero() -> None:
    header, data = read_safetensors(CHECKPOINT / WEIGHTS)
    header.pop("__metadata__")
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        assert np.frombuffer(data[begin:end], dtype="<u2").any(), name


def test_configuration_follows_from_shape_and_tokenizer(tokenizer: Tokenizer) -> None:
    assert read_json("config.json") == model_config(
        TOY,
        end_token_id=token_id(tokenizer, TURN_END),
        pad_token_id=token_id(tokenizer, END_OF_TEXT),
        vision_token_id=token_id(tokenizer, VISION_TOKEN),
    )
    assert read_json("tokenizer_config.json") == tokenizer_config(TOY.context)
    assert read_json("generation_config.json") == generation_config(tokenizer)
    assert tokenizer.get_vocab_size() == TOY.vocab


def test_chat_template_is_the_source() -> None:
    assert (CHECKPOINT / CHAT_TEMPLATE.name).read_bytes() == CHAT_TEMPLATE.read_bytes()


def test_tokenizer_trains_again_to_the_same_bytes(tmp_path: Path) -> None:
    texts = read_tokenizer_text(CHECKPOINT / TOKENIZER_TEXT)
    train(texts, vocab=TOY.vocab).save(str(tmp_path / TOKENIZER))
    assert (tmp_path / TOKENIZER).read_bytes() == (CHECKPOINT / TOKENIZER).read_bytes()
