"""The token sequences that ranges are measured on: exact ids, the same for the same seed.

By default they are calls of a recipe's own workload: what the checkpoint will serve. They come from a seed of their
own, so that no benchmark's prompt is among them.
"""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson

from bench.errors import UsageError
from bench.seeds import generator
from bench.workload.tokens import CheckpointTokenizer
from bench.workload.voice import VoiceWorkload
from quantize.tensor_files import InMemory
from recipes.load import load_recipe

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from quantize.target import Calibration

TOKENS: Final = "tokens"
_PATIENCE: Final = 20
"""Calls in a row that are too short, after which none is long enough."""


def token_sequences(calibration: Calibration, tokenizer_folder: Path) -> InMemory:
    """The sequences, int32 [samples, tokens].

    All are cut to the same length, so that they can be run together without padding.

    Args:
        calibration: of the target.
        tokenizer_folder: of the checkpoint.

    Raises:
        UsageError: the texts are too short or too few, or the dataset is none.
        StreamproofError: the tokenizer cannot be read.
    """
    tokenizer = CheckpointTokenizer.from_folder(tokenizer_folder)
    found = _calls(calibration, tokenizer) if calibration.dataset is None else _packed(calibration, tokenizer)
    sequences = list(itertools.islice(found, calibration.samples))
    if len(sequences) < calibration.samples:
        raise UsageError(
            f"{calibration.dataset} has text for {len(sequences)} samples of {calibration.tokens} tokens; "
            f"{calibration.samples} are asked for",
            remedy=f"--set calibration.samples={max(1, len(sequences))}, or a larger file.",
        )
    content = np.asarray(sequences, dtype="<i4").tobytes()
    return InMemory(TOKENS, "I32", (calibration.samples, calibration.tokens), content)


def _calls(calibration: Calibration, tokenizer: CheckpointTokenizer) -> Iterator[list[int]]:
    """A turn of each call that is long enough, with its reply."""
    recipe = load_recipe(calibration.recipe or "")
    # The request with token ids is the very sequence that the engine will compute.
    spec = recipe.workload.model_copy(update={"api": "token_ids"})
    workload = VoiceWorkload(spec, tokenizer=tokenizer, model="", seed=("calibration", calibration.seed))
    longest, short = 0, 0
    for stream in itertools.count():
        call = workload.call(stream, 0)
        candidates = []
        for turn, said in zip(call.turns, call.spoken, strict=True):
            ids = orjson.loads(turn.body)["prompt"] + tokenizer.ids(said.reply)
            longest = max(longest, len(ids))
            if len(ids) >= calibration.tokens:
                candidates.append(ids[: calibration.tokens])
        if candidates:
            short = 0
            yield generator("calibration", calibration.seed, "turn", stream).choice(candidates)
        else:
            short += 1
        if short == _PATIENCE:
            raise UsageError(
                f"the calls of the recipe {recipe.target} are at most {longest} tokens long; calibration.tokens is "
                f"{calibration.tokens}",
                remedy=f"--set calibration.tokens={longest * 9 // 10}",
            )


def _packed(calibration: Calibration, tokenizer: CheckpointTokenizer) -> Iterator[list[int]]:
    """The documents of the dataset in a seeded order, one after the other, cut into sequences."""
    documents = _documents(calibration.dataset or "", tokenizer)
    generator("calibration", calibration.seed, "order").shuffle(documents)
    ids = list(itertools.chain.from_iterable(documents))
    for start in range(0, len(ids) - calibration.tokens + 1, calibration.tokens):
        yield ids[start : start + calibration.tokens]


def _documents(path: str, tokenizer: CheckpointTokenizer) -> list[list[int]]:
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123  a path of the user's, as it was written
            return [_document(line, f"{path}, line {number}", tokenizer) for number, line in enumerate(file, 1)]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"calibration.dataset {path} cannot be read: {error}", remedy="Name a JSONL file in UTF-8."
        ) from error


def _document(line: str, where: str, tokenizer: CheckpointTokenizer) -> list[int]:
    remedy = 'Every line is an object with "text", "messages" or "token_ids".'
    try:
        row: Any = json.loads(line)
    except json.JSONDecodeError as error:
        raise UsageError(f"{where} is not JSON: {error.msg}", remedy=remedy) from error
    match row:
        case {"text": str(text)}:
            return tokenizer.ids(text)
        case {"messages": list(messages)}:
            return tokenizer.ids(tokenizer.template.render(messages, add_generation_prompt=False))
        case {"token_ids": list(ids)} if all(type(i) is int and 0 <= i < tokenizer.vocab_size for i in ids):
            return ids
    raise UsageError(f"{where} has none of them, or not in its form", remedy=remedy)
