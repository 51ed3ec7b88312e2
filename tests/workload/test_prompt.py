from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import StreamproofError
from bench.seeds import generator
from bench.workload.company import Company
from bench.workload.handbook import system_lines
from bench.workload.prompt import Message, Part, Prompts, segment_key
from bench.workload.template import ChatTemplate
from bench.workload.tokens import CheckpointTokenizer
from bench.workload.wording import table

if TYPE_CHECKING:
    from pathlib import Path

FILLERS = [text for speaker in table("common")["inside"].values() for text in speaker]
LINES = list(islice(system_lines(Company.from_seed("pieces"), "booking", generator("pieces"), "pieces"), 150))

EACH = "{% for message in messages %}"
SAID = "\n{{ message.content }}<|im_end|>\n{% endfor %}"


@pytest.fixture(scope="module")
def prompts(tokenizer: CheckpointTokenizer) -> Prompts:
    return Prompts(tokenizer, thinking=False)


def with_template(folder: Path, source: str) -> CheckpointTokenizer:
    tokenizer = CheckpointTokenizer.from_folder(folder)
    tokenizer.template = ChatTemplate(source, {})
    return tokenizer


@given(st.lists(st.sampled_from(FILLERS), min_size=1, max_size=12))
def test_sentences_add_up(tokenizer: CheckpointTokenizer, sentences: list[str]) -> None:
    pieces = [sentences[0], *(f" {sentence}" for sentence in sentences[1:])]
    assert tokenizer.ids("".join(pieces)) == [number for piece in pieces for number in tokenizer.ids(piece)]


@given(st.lists(st.sampled_from(LINES), min_size=1, max_size=12), st.sampled_from(FILLERS))
def test_lines_add_up(tokenizer: CheckpointTokenizer, lines: list[str], closing: str) -> None:
    pieces = [*lines, closing]
    assert tokenizer.ids("".join(pieces)) == [number for piece in pieces for number in tokenizer.ids(piece)]


@given(st.text(st.characters(codec="ascii", exclude_characters="<"), max_size=40))
def test_no_token_reaches_over_a_special_token(tokenizer: CheckpointTokenizer, text: str) -> None:
    whole = f"{text}<|im_end|>\n<|im_start|>user\n"
    parts = [text, "<|im_end|>\n", "<|im_start|>user\n"]
    assert tokenizer.ids(whole) == [number for part in parts for number in tokenizer.ids(part)]


def test_what_stands_around_messages_is_learnt_from_the_template(prompts: Prompts) -> None:
    assert prompts.frame.opening == {
        "system": "<|im_start|>system\n",
        "user": "<|im_start|>user\n",
        "assistant": "<|im_start|>assistant\n",
    }
    assert set(prompts.frame.closing.values()) == {"<|im_end|>\n"}
    assert prompts.frame.generation == "<think>\n\n</think>\n\n"


def test_thinking_is_an_option_of_the_template(tokenizer: CheckpointTokenizer) -> None:
    thinking = Prompts(tokenizer, thinking=True)
    assert thinking.frame.generation == "<think>\n"
    assert thinking.template_options == {"enable_thinking": True}


def test_other_families_with_special_tokens_work(checkpoint_folder: Path) -> None:
    header = "<|im_start|>{{ message.role }}<think>\n\n"
    source = (
        f"{{% for message in messages %}}{header}{{{{ message.content | trim }}}}<|im_end|>{{% endfor %}}"
        "{% if add_generation_prompt %}<|im_start|>assistant<think>\n\n{% endif %}"
    )
    prompts = Prompts(with_template(checkpoint_folder, source), thinking=False)
    assert prompts.frame.closing["user"] == "<|im_end|>"
    assert prompts.frame.opening["assistant"] == "<|im_start|>assistant<think>\n\n"
    assert prompts.frame.generation == ""
    messages = [prompts.message("system", "Be kind."), prompts.message("user", "Hello.")]
    assert prompts.checked(messages, known=0)[-1].text == "<|im_start|>assistant<think>\n\n"


@pytest.mark.parametrize(
    "source",
    [
        "{% for message in messages %}[{{ message.role }}] {{ message.content }}\n{% endfor %}",  # no special tokens
        "<|im_start|>{{ messages[-1].content }}<|im_end|>\n<|im_start|>assistant\n",  # not every message
        "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}{% endfor %}",  # no closing
        f"{EACH}<|im_start|>{{{{ loop.index }}}}{SAID}<|im_start|>assistant\n",  # a message changes with its place
        f"{EACH}<|im_start|>{{{{ message.role }}}}{SAID}<|im_start|>model\n",  # history has another name for the reply
    ],
)
def test_templates_that_exact_prompts_cannot_be_built_for_are_refused(checkpoint_folder: Path, source: str) -> None:
    with pytest.raises(StreamproofError, match="exact prompts cannot be built"):
        Prompts(with_template(checkpoint_folder, source), thinking=False)


def test_a_tokenizer_without_special_tokens_is_refused(checkpoint_folder: Path) -> None:
    tokenizer = CheckpointTokenizer.from_folder(checkpoint_folder)
    tokenizer.added = ()
    with pytest.raises(StreamproofError, match="exact prompts cannot be built"):
        Prompts(tokenizer, thinking=False)


def test_a_message_knows_its_tokens_and_segments(tokenizer: CheckpointTokenizer, prompts: Prompts) -> None:
    message = prompts.message("user", "#12345678\nCall record.", coded=True)
    text = "<|im_start|>user\n#12345678\nCall record.<|im_end|>\n"
    assert message.part.text == text
    assert list(message.part.ids) == tokenizer.ids(text)
    assert sum(segment.tokens for segment in message.part.segments) == message.part.tokens
    code = tokenizer.ids("#12345678\n")
    assert [segment.tokens for segment in message.part.segments[1:-1]] == [1] * len(code)


def test_two_codes_share_the_segments_of_their_common_beginning(prompts: Prompts) -> None:
    one, other = (prompts.message("user", f"#{code}\nrecord", coded=True).part.segments for code in ("1239", "1245"))
    assert [a == b for a, b in zip(one, other, strict=True)] == [True, True, True, True, False, False, True, True]


def test_what_a_template_adds_is_counted(tokenizer: CheckpointTokenizer, prompts: Prompts) -> None:
    content = "Is it about that car today?"
    assert prompts.around("user") == tokenizer.count("<|im_start|>user\n<|im_end|>\n")
    assert prompts.message("user", content).part.tokens == prompts.around("user") + tokenizer.count(content)


def test_a_prompt_is_its_messages_and_the_generation_prompt(prompts: Prompts) -> None:
    messages = [prompts.message("system", "Be kind."), prompts.message("user", "Hello.")]
    parts = prompts.checked(messages, known=0)
    assert parts == (messages[0].part, messages[1].part, prompts.generation)


def spoilt(message: Message, **changes: Any) -> Message:
    part = Part(**{"text": message.part.text, "ids": message.part.ids, "segments": message.part.segments} | changes)
    return Message(message.role, message.content, part)


def test_a_prompt_that_the_template_renders_differently_is_a_fault(prompts: Prompts) -> None:
    messages = [prompts.message("system", "Be kind."), prompts.message("user", " Hello. ")]  # templates trim
    with pytest.raises(StreamproofError, match="renders a prompt differently"):
        prompts.checked(messages, known=0)


def test_tokens_that_are_not_those_of_the_prompt_are_a_fault(prompts: Prompts) -> None:
    messages = [prompts.message("system", "Be kind."), spoilt(prompts.message("user", "Hello."), ids=(1, 2))]
    with pytest.raises(StreamproofError, match="joins parts"):
        prompts.checked(messages, known=1)


def test_what_is_known_is_not_encoded_again(prompts: Prompts) -> None:
    messages = [spoilt(prompts.message("system", "Be kind."), ids=(1, 2)), prompts.message("user", "Hello.")]
    prompts.checked(messages, known=1)
    with pytest.raises(StreamproofError, match="joins parts"):
        prompts.checked(messages, known=0)


def test_keys_fit_a_signed_column() -> None:
    assert segment_key("") == 0xE3B0C44298FC1C14 >> 1  # SHA-256 of nothing begins so
    assert all(0 <= segment_key(str(number)) < 2**63 for number in range(100))
