from __future__ import annotations

from itertools import islice

import numpy as np
import orjson
import pytest

from bench.workload.corpus import training_text
from bench.workload.tokens import CheckpointTokenizer
from bench.workload.voice import VoiceWorkload
from quantize.checkpoint import TOY
from quantize.quality.text import ROLES, HeldOutText, held_out_texts
from quantize.target import load_target
from quantize.text import token_sequences
from recipes.load import load_recipe
from recipes.schema import Workload


@pytest.fixture(scope="module")
def tokenizer() -> CheckpointTokenizer:
    return CheckpointTokenizer.from_folder(TOY)


@pytest.fixture(scope="module")
def spec() -> Workload:
    return load_recipe("cpu").workload


@pytest.fixture(scope="module")
def texts(spec: Workload, tokenizer: CheckpointTokenizer) -> list[HeldOutText]:
    return list(islice(held_out_texts(spec, tokenizer, seed=1), 6))


def decoded(tokenizer: CheckpointTokenizer, ids: tuple[int, ...]) -> str:
    text: str = tokenizer._tokenizer.decode(list(ids), skip_special_tokens=False)
    return text


def test_agents_take_turns_and_every_text_is_one_whole_call(texts: list[HeldOutText], spec: Workload) -> None:
    assert [text.agent for text in texts] == [*spec.agents, *spec.agents]
    for text in texts:
        assert len(text.roles) == len(text.ids)
        assert text.prompt_tokens < len(text.ids)
        assert set(text.roles) == set(range(len(ROLES)))


def test_the_prompt_is_the_very_request_that_the_workload_sends(
    texts: list[HeldOutText], spec: Workload, tokenizer: CheckpointTokenizer
) -> None:
    for text in texts:
        alone = spec.model_copy(update={"agents": [text.agent], "api": "token_ids"})
        workload = VoiceWorkload(alone, tokenizer=tokenizer, model="", seed=("held-out", 1, text.number))
        sent = orjson.loads(workload.call(0, 0).turns[-1].body)["prompt"]
        assert list(text.ids[: text.prompt_tokens]) == sent


def test_the_text_ends_with_the_scripted_reply_and_its_end(
    texts: list[HeldOutText], spec: Workload, tokenizer: CheckpointTokenizer
) -> None:
    reply = texts[0].ids[texts[0].prompt_tokens :]
    assert decoded(tokenizer, reply).rstrip().endswith("<|im_end|>")
    assert len(reply) == spec.output_tokens + len(tokenizer.ids("<|im_end|>\n"))
    assert {texts[0].roles[-1]} == {ROLES.index("assistant")}


def test_a_seed_decides_everything(spec: Workload, tokenizer: CheckpointTokenizer, texts: list[HeldOutText]) -> None:
    assert next(held_out_texts(spec, tokenizer, seed=1)) == texts[0]
    assert next(held_out_texts(spec, tokenizer, seed=2)).ids != texts[0].ids


def record_of(text: str) -> str:
    """The caller's record: what a call has for itself, names and numbers."""
    return text.split("<|im_start|>user\n", maxsplit=2)[1].split("<|im_end|>", maxsplit=1)[0]


def windows(ids: tuple[int, ...], length: int) -> set[tuple[int, ...]]:
    return {ids[start : start + length] for start in range(len(ids) - length + 1)}


def test_no_call_is_one_of_calibration(texts: list[HeldOutText], tokenizer: CheckpointTokenizer) -> None:
    spec = load_target("tiny").calibration
    rows = np.frombuffer(token_sequences(spec, TOY).content, dtype="<i4").reshape(spec.samples, spec.tokens)
    opening = len(tokenizer.ids("<|im_start|>system\n"))
    codes = {tuple(row[opening : opening + 4].tolist()) for row in rows}  # what sets a seed's prompts apart comes first
    assert not codes & {text.ids[opening : opening + 4] for text in texts}
    calibrated = set().union(*(windows(tuple(row.tolist()), 24) for row in rows))
    records = [text.roles.index(ROLES.index("user")) for text in texts]
    assert not calibrated & {text.ids[at + 8 : at + 32] for text, at in zip(texts, records, strict=True)}


def test_no_call_is_one_of_training(texts: list[HeldOutText], tokenizer: CheckpointTokenizer) -> None:
    held_out = {record_of(decoded(tokenizer, text.ids)) for text in texts}
    assert len(held_out) == len(texts)
    assert not held_out & {record_of(text) for text in islice(training_text(1), 200)}


def test_two_texts_share_no_prompt(texts: list[HeldOutText]) -> None:
    prompts = {text.ids[:200] for text in texts}
    assert len(prompts) == len(texts)
