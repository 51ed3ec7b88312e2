"""The checkpoint's chat template, rendered as the server renders it.

The environment is that of `apply_chat_template` in transformers (`utils/chat_template_utils.py`, 5.x): an immutable
sandbox with `trim_blocks`, `lstrip_blocks` and loop controls, `tojson` without HTML escapes, `raise_exception` and
`strftime_now`, and the tags `{% generation %}` that some templates carry for training. vLLM hands over `tools` and
`documents` as None where a request has none, and the request's `chat_template_kwargs` as they are.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from bench.errors import StreamproofError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jinja2.nodes import Node
    from jinja2.parser import Parser


class ChatTemplate:
    """A compiled chat template.

    Args:
        source: Jinja text.
        special_tokens: names such as "eos_token", which templates may use, with their text.

    Raises:
        StreamproofError: the text is no Jinja template.
    """

    def __init__(self, source: str, special_tokens: Mapping[str, str]) -> None:
        try:
            self._template = _environment().from_string(source)
        except jinja2.TemplateSyntaxError as error:
            raise StreamproofError(
                f"the checkpoint's chat template is not valid: line {error.lineno}: {error.message}",
                remedy="Take the template that belongs to the checkpoint (chat_template.jinja).",
            ) from error
        self._special_tokens = dict(special_tokens)

    def render(
        self, messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool = True, **options: object
    ) -> str:
        """The prompt's text.

        Args:
            messages: with "role" and "content".
            add_generation_prompt: whether the text ends where the assistant begins to speak.
            options: the request's `chat_template_kwargs`, e.g. `enable_thinking=False`.

        Raises:
            StreamproofError: the template refuses these messages.
        """
        try:
            return self._template.render(
                messages=messages,
                tools=None,
                documents=None,
                add_generation_prompt=add_generation_prompt,
                **{**self._special_tokens, **options},
            )
        except jinja2.TemplateError as error:
            raise StreamproofError(
                f"the checkpoint's chat template refuses the workload's messages: {error}",
                remedy="The workload sends a system message, user messages and assistant messages; use a checkpoint "
                'whose template takes them, or workload.api = "token_ids".',
            ) from error


class _GenerationTag(Extension):
    """`{% generation %}` ... `{% endgeneration %}`: marks what is trained on; the text passes through."""

    tags = {"generation"}  # noqa: RUF012  the base class declares an instance attribute

    def parse(self, parser: Parser) -> Node | list[Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


def _to_json(
    value: Any,  # noqa: ANN401  JSON has no narrower type
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002  templates call it by position
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002  as above
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)  # noqa: DTZ005  the server's local time, as transformers does it
