"""A small tokenizer of Qwen's kind, trained on the workload's own text, with a chat template of Qwen3.5's form."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Final

import pytest
from faker import Faker
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from bench.seeds import generator
from bench.workload.caller import Caller
from bench.workload.company import LOCALE, Company
from bench.workload.corpus import SPECIAL_TOKENS, training_text
from bench.workload.tokens import CheckpointTokenizer

if TYPE_CHECKING:
    from pathlib import Path

QWEN_PIECES: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""Qwen3.5's pre-tokenizer, as its tokenizer.json has it."""

QWEN_LIKE_TEMPLATE: Final = """
{%- macro text_of(content) %}
    {%- if content is string %}
        {{- content }}
    {%- else %}
        {%- for item in content %}
            {{- item.text }}
        {%- endfor %}
    {%- endif %}
{%- endmacro %}
{%- set seen = namespace(last_query=-1) %}
{%- for message in messages %}
    {%- if message.role == 'user' %}
        {%- set seen.last_query = loop.index0 %}
    {%- endif %}
{%- endfor %}
{%- if seen.last_query < 0 %}
    {{- raise_exception('No user query.') }}
{%- endif %}
{%- for message in messages %}
    {%- set content = text_of(message.content) | trim %}
    {%- if message.role == 'system' and not loop.first %}
        {{- raise_exception('The system message comes first.') }}
    {%- elif message.role == 'assistant' and loop.index0 > seen.last_query %}
        {{- '<|im_start|>assistant\\n<think>\\n\\n</think>\\n\\n' + content + '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- else %}
        {{- '<think>\\n' }}
    {%- endif %}
{%- endif %}
"""
"""Behaves as Qwen3.5's template does for text: trims contents, wants the system message first, thinks by default."""


@pytest.fixture(scope="session")
def checkpoint_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that stand beside a checkpoint's weights."""
    folder = tmp_path_factory.mktemp("checkpoint")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN_PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=1200, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(islice(training_text(7), 60), trainer)
    tokenizer.add_special_tokens(
        [AddedToken(text, special=not text.endswith("think>"), normalized=False) for text in SPECIAL_TOKENS]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"eos_token": "<|im_end|>", "pad_token": {"content": "<|endoftext|>"}, "bos_token": None}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "chat_template.jinja").write_text(QWEN_LIKE_TEMPLATE)
    return folder


@pytest.fixture(scope="session")
def tokenizer(checkpoint_folder: Path) -> CheckpointTokenizer:
    """The checkpoint's tokenizer with its template."""
    return CheckpointTokenizer.from_folder(checkpoint_folder)


@pytest.fixture(scope="session")
def caller_of_a_company() -> tuple[Company, Caller]:
    """Somebody who calls some company."""
    company, fake = Company.from_seed("test", 1), Faker(LOCALE)
    fake.seed_instance(1)
    return company, Caller.invented(company, generator("test", 1), fake)
