"""The chat template, rendered as the engine renders it."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any, NoReturn

import pytest
from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from bench.workload.corpus import training_dialogues, training_text
from quantize.toy.tokenizer import CHAT_TEMPLATE

ASK: dict[str, Any] = {"role": "user", "content": "Is my car ready?"}
TOOL = {"type": "function", "function": {"name": "find_job", "parameters": {"type": "object"}}}
OPEN = "<|im_start|>assistant\n"


def render(messages: list[dict[str, Any]], **given: Any) -> str:
    # The settings of transformers' chat templates, which the engine uses.
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)

    def raise_exception(message: str) -> NoReturn:
        raise TemplateError(message)

    environment.globals["raise_exception"] = raise_exception
    template = environment.from_string(CHAT_TEMPLATE.read_text(encoding="utf-8"))
    return template.render(messages=messages, **given)


def test_thinking_off_leaves_an_empty_block_behind() -> None:
    prompt = render([ASK], add_generation_prompt=True, enable_thinking=False)
    assert prompt == f"<|im_start|>user\nIs my car ready?<|im_end|>\n{OPEN}<think>\n\n</think>\n\n"


@pytest.mark.parametrize("given", [{}, {"enable_thinking": True}])
def test_thinking_is_on_unless_switched_off(given: dict[str, bool]) -> None:
    assert render([ASK], add_generation_prompt=True, **given).endswith(f"{OPEN}<think>\n")


def test_without_a_generation_prompt_the_last_message_ends_the_text() -> None:
    assert render([ASK]) == "<|im_start|>user\nIs my car ready?<|im_end|>\n"


def test_history_is_rendered_without_what_was_thought() -> None:
    reply = {"role": "assistant", "content": "<think>\nhmm\n</think>\n\nIt is ready."}
    plain = {"role": "assistant", "content": "It is ready."}
    assert render([ASK, reply, ASK]) == render([ASK, plain, ASK])
    assert render([ASK, plain]).endswith(f"{OPEN}It is ready.<|im_end|>\n")


def test_a_longer_call_begins_with_the_shorter_one() -> None:
    system = {"role": "system", "content": "You are the front desk."}
    reply = {"role": "assistant", "content": "It is ready."}
    shorter = render([system, ASK, reply])
    assert shorter == f"<|im_start|>system\nYou are the front desk.<|im_end|>\n{render([ASK, reply])}"
    assert render([system, ASK, reply, ASK]) == shorter + render([ASK])


def test_tools_stand_before_the_system_text_as_json_lines() -> None:
    system = {"role": "system", "content": "Don't guess <b>."}
    prompt = render([system, ASK], tools=[TOOL, TOOL])
    line = json.dumps(TOOL)
    assert prompt.startswith("<|im_start|>system\n# Tools\n")
    assert f"<tools>\n{line}\n{line}\n</tools>" in prompt
    assert "\n\nDon't guess <b>.<|im_end|>\n<|im_start|>user\n" in prompt
    assert render([ASK], tools=[TOOL]).split("<|im_end|>")[0].endswith("</tool_call>")


def test_calls_and_their_results_are_written_as_blocks() -> None:
    call = {"function": {"name": "find_job", "arguments": {"plate": "AB12CDE", "open": True}}}
    messages = [
        ASK,
        {"role": "assistant", "content": "One moment.", "tool_calls": [call, call]},
        {"role": "tool", "content": "none"},
        {"role": "tool", "content": "one"},
    ]
    block = (
        "<tool_call>\n<function=find_job>\n<parameter=plate>\nAB12CDE\n</parameter>\n"
        "<parameter=open>\ntrue\n</parameter>\n</function>\n</tool_call>"
    )
    results = "\n<tool_response>\nnone\n</tool_response>\n<tool_response>\none\n</tool_response>"
    prompt = render(messages)
    assert f"{OPEN}One moment.\n\n{block}\n{block}<|im_end|>\n<|im_start|>user{results}<|im_end|>\n" in prompt
    silent = render([ASK, {"role": "assistant", "content": None, "tool_calls": [call]}])
    assert silent.endswith(f"{OPEN}{block}<|im_end|>\n")


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([ASK, {"role": "system", "content": "late"}], "must be the first"),
        ([{"role": "narrator", "content": "x"}], "Unknown role: narrator"),
    ],
)
def test_what_qwen_does_not_read_is_refused(messages: list[dict[str, Any]], words: str) -> None:
    with pytest.raises(TemplateError, match=words):
        render(messages)


def test_the_training_text_is_what_the_template_renders() -> None:
    for dialogue, text in islice(zip(training_dialogues(3), training_text(3), strict=True), 5):
        messages = [{"role": "system", "content": dialogue.system}, {"role": "user", "content": dialogue.record}]
        for turn in dialogue.turns:
            messages += [{"role": "user", "content": turn.caller}, {"role": "assistant", "content": turn.reply}]
        reply = messages.pop()["content"]
        prompt = render(messages, add_generation_prompt=True, enable_thinking=False)
        assert text == f"{prompt}{reply}<|im_end|>\n"
