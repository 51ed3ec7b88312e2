from __future__ import annotations

import json
import shutil
from itertools import islice
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from bench.errors import StreamproofError
from bench.workload.corpus import SPECIAL_TOKENS, training_text
from bench.workload.tokens import CheckpointTokenizer
from bench.workload.voice import VoiceWorkload
from recipes.schema import Workload


@pytest.fixture
def folder(checkpoint_folder: Path, tmp_path: Path) -> Path:
    """A copy that may be spoilt."""
    return Path(shutil.copytree(checkpoint_folder, tmp_path / "copy"))


def test_special_tokens_in_a_text_are_single_ids_and_none_is_added(tokenizer: CheckpointTokenizer) -> None:
    ids = tokenizer.ids("<|im_start|>user\nHello<|im_end|>\n")
    tokens = [tokenizer.token(number) for number in ids]
    assert tokens[0] == "<|im_start|>"
    assert tokens.count("<|im_end|>") == 1
    assert tokens[-1] == "\u010a"  # the line break, as byte-level vocabularies write it


def test_counting_is_the_number_of_ids(tokenizer: CheckpointTokenizer) -> None:
    text = "I'd like to book my Honda Jazz in for a full service, please."
    assert tokenizer.count(text) == len(tokenizer.ids(text))


def test_added_tokens_are_known_longest_first(tokenizer: CheckpointTokenizer) -> None:
    assert set(tokenizer.added) == set(SPECIAL_TOKENS)
    assert [len(text) for text in tokenizer.added] == sorted((len(text) for text in SPECIAL_TOKENS), reverse=True)


def test_every_id_is_below_the_size_of_the_vocabulary(tokenizer: CheckpointTokenizer) -> None:
    assert tokenizer.token(tokenizer.vocab_size - 1)
    with pytest.raises(ValueError, match="no token"):
        tokenizer.token(tokenizer.vocab_size)


def test_named_special_tokens_reach_the_template(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("{{ eos_token }} {{ pad_token }} {{ bos_token is defined }}")
    template = CheckpointTokenizer.from_folder(folder).template
    assert template.render([]) == "<|im_end|> <|endoftext|> False"


@pytest.mark.parametrize(
    "template",
    ["in the config", [{"name": "tool_use", "template": "no"}, {"name": "default", "template": "in the config"}]],
)
def test_older_checkpoints_have_their_template_in_the_config(folder: Path, template: object) -> None:
    (folder / "chat_template.jinja").unlink()
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    assert CheckpointTokenizer.from_folder(folder).template.render([]) == "in the config"


def test_padding_and_truncation_of_the_file_are_off(folder: Path) -> None:
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    content["truncation"] = {"max_length": 2, "stride": 0, "strategy": "LongestFirst", "direction": "Right"}
    content["padding"] = {
        "strategy": {"Fixed": 64},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "<|endoftext|>",
    }
    path.write_text(json.dumps(content))
    assert 2 < CheckpointTokenizer.from_folder(folder).count("one two three four five six") < 64


def test_what_the_file_would_add_is_not_added(folder: Path, tokenizer: CheckpointTokenizer) -> None:
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    first = {"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}
    content["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [first, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<|endoftext|>": {"id": "<|endoftext|>", "ids": [0], "tokens": ["<|endoftext|>"]}},
    }
    path.write_text(json.dumps(content))
    adding = CheckpointTokenizer.from_folder(folder)
    assert adding.ids("Hello.") == tokenizer.ids("Hello.")
    assert adding.count("Hello.") == tokenizer.count("Hello.")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tokenizer.json", "{}", "is not a tokenizer"),
        ("tokenizer_config.json", "[1]", "is not a JSON object"),
        ("tokenizer_config.json", "{\n,", "is not JSON: line 2"),
        ("chat_template.jinja", b"\xff\xfe", "cannot read"),
    ],
)
def test_a_file_that_is_not_what_its_name_says_is_named(
    folder: Path, name: str, content: str | bytes, message: str
) -> None:
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(StreamproofError, match=message) as caught:
        CheckpointTokenizer.from_folder(folder)
    assert str(folder / name) in str(caught.value)
    assert caught.value.remedy


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(StreamproofError, match=name):
        CheckpointTokenizer.from_folder(folder)


def test_a_checkpoint_without_a_template_is_an_error(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(StreamproofError, match="no chat template"):
        CheckpointTokenizer.from_folder(folder)


def test_a_tokenizer_of_sentencepieces_kind_is_refused_with_the_reason(checkpoint_folder: Path, tmp_path: Path) -> None:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    marks = ["<unk>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"]
    trainer = trainers.UnigramTrainer(vocab_size=600, special_tokens=marks, unk_token=marks[0], show_progress=False)
    tokenizer.train_from_iterator(islice(training_text(7), 30), trainer)
    for name in ("tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(checkpoint_folder / name, tmp_path)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    spec = Workload(
        agents=["router"],
        prompt_tokens=1500,
        output_tokens=40,
        shared_prefix_tokens=700,
        caller_tokens=24,
        turns=[1, 2],
    )
    with pytest.raises(StreamproofError) as caught:
        VoiceWorkload(spec, tokenizer=CheckpointTokenizer.from_folder(tmp_path), model="toy", seed=("test",)).primes()
    assert "SentencePiece" in caught.value.remedy
