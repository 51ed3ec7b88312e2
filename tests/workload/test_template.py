from __future__ import annotations

import json
from datetime import datetime

import pytest

from bench.errors import StreamproofError
from bench.workload.template import ChatTemplate

MESSAGES = [{"role": "user", "content": "Hello <there> & caf\u00e9"}]


def rendered(source: str, **options: bool | str) -> str:
    return ChatTemplate(source, {"eos_token": "<|im_end|>"}).render(MESSAGES, **options)  # type: ignore[arg-type]


def test_blocks_leave_no_white_space_behind() -> None:
    assert (
        rendered("{% for message in messages %}\n    {% if true %}\n{{ message.role }}\n    {% endif %}\n{% endfor %}")
        == "user\n"
    )


def test_messages_options_and_special_tokens_are_there() -> None:
    assert rendered("{{ messages[0].content[:5] }}{{ eos_token }}{{ enable_thinking }}", enable_thinking=False) == (
        "Hello<|im_end|>False"
    )


def test_an_option_overrides_a_special_token() -> None:
    options = {"eos_token": "<end>"}
    assert rendered("{{ eos_token }}", **options) == "<end>"


def test_tools_and_documents_are_none_as_the_server_gives_them() -> None:
    assert rendered("{{ tools is none }}{{ documents is none }}{{ add_generation_prompt }}") == "TrueTrueTrue"


def test_the_generation_prompt_can_be_left_out() -> None:
    template = ChatTemplate("{{ add_generation_prompt }}", {})
    assert template.render(MESSAGES, add_generation_prompt=False) == "False"


def test_to_json_escapes_no_html_and_no_letters() -> None:
    assert rendered("{{ messages[0] | tojson }}") == json.dumps(MESSAGES[0], ensure_ascii=False)
    assert rendered("{{ {'b': 1, 'a': [2]} | tojson(indent=1, sort_keys=true) }}") == json.dumps(
        {"a": [2], "b": 1}, indent=1
    )
    assert rendered("{{ 'caf\u00e9' | tojson(true) }}") == '"caf\\u00e9"'
    assert rendered("{{ [1, 2] | tojson(separators=(',', ':')) }}") == "[1,2]"


def test_loops_can_be_left() -> None:
    assert rendered("{% for i in [1, 2, 3] %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}") == "1"


def test_generation_tags_pass_their_text_through() -> None:
    assert rendered("a{% generation %}b{{ messages[0].role }}{% endgeneration %}c") == "abuserc"


def test_the_date_is_the_local_one() -> None:
    before = datetime.now().date()  # noqa: DTZ005  local, as the template sees it
    date = rendered("{{ strftime_now('%Y-%m-%d') }}")
    assert date in {before.isoformat(), datetime.now().date().isoformat()}  # noqa: DTZ005  as above


def test_a_template_cannot_change_what_it_is_given() -> None:
    with pytest.raises(StreamproofError, match="refuses"):
        rendered("{% set _ = messages.append(1) %}")


def test_a_template_that_refuses_says_why() -> None:
    with pytest.raises(StreamproofError, match="refuses the workload's messages: no users here"):
        rendered("{{ raise_exception('no users here') }}")


def test_a_broken_template_is_named_with_its_line() -> None:
    with pytest.raises(StreamproofError, match="line 2"):
        ChatTemplate("fine\n{% if %}", {})
