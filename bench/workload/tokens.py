"""Tokens of a checkpoint: its tokenizer and its chat template, read from the files beside the weights.

Special tokens are handled as vLLM's chat endpoint does it: the template's text is encoded as it is, special tokens in
it become single ids, and none is added (`add_special_tokens=False`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer

from bench.errors import StreamproofError
from bench.workload.template import ChatTemplate

if TYPE_CHECKING:
    from pathlib import Path

_REMEDY = "A checkpoint's folder has tokenizer.json, tokenizer_config.json and mostly chat_template.jinja."


class CheckpointTokenizer:
    """A tokenizer with its chat template.

    Attributes:
        template: the chat template.
        added: the texts that are always tokens of their own, special or not, longest first.
        vocab_size: one more than the highest id.
    """

    def __init__(self, tokenizer: Tokenizer, template: ChatTemplate) -> None:
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self._tokenizer = tokenizer
        self.template = template
        added = tokenizer.get_added_tokens_decoder().values()
        self.added = tuple(sorted((token.content for token in added), key=lambda text: (-len(text), text)))
        self.vocab_size = 1 + max(tokenizer.get_vocab(with_added_tokens=True).values())

    @classmethod
    def from_folder(cls, folder: Path) -> CheckpointTokenizer:
        """Read `tokenizer.json`, `tokenizer_config.json` and `chat_template.jinja` of a checkpoint.

        Args:
            folder: with the three files; an older checkpoint has its template inside `tokenizer_config.json`.

        Raises:
            StreamproofError: a file is missing or is not what its name says.
        """
        config = _json(folder / "tokenizer_config.json")
        path = folder / "tokenizer.json"
        text = _text(path)
        try:
            tokenizer = Tokenizer.from_str(text)
        except Exception as error:  # the Rust library raises nothing narrower
            raise StreamproofError(f"{path} is not a tokenizer: {error}", remedy=_REMEDY) from error
        return cls(tokenizer, ChatTemplate(_template(folder, config), _special_tokens(config)))

    def ids(self, text: str) -> list[int]:
        """The token ids of `text`; special tokens written out in it become single ids."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def count(self, text: str) -> int:
        """The length of `text` in tokens."""
        return len(self._tokenizer.encode(text, add_special_tokens=False))

    def token(self, number: int) -> str:
        """The vocabulary's entry of an id, e.g. "Ġthe".

        Raises:
            ValueError: there is no such id.
        """
        token: str | None = self._tokenizer.id_to_token(number)
        if token is None:
            raise ValueError(f"no token has the id {number}")
        return token


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StreamproofError(f"cannot read {path}: {error}", remedy=_REMEDY) from error


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(_text(path))
    except json.JSONDecodeError as error:
        raise StreamproofError(f"{path} is not JSON: line {error.lineno}: {error.msg}", remedy=_REMEDY) from error
    if not isinstance(value, dict):
        raise StreamproofError(f"{path} is not a JSON object", remedy=_REMEDY)
    return value


def _template(folder: Path, config: dict[str, Any]) -> str:
    path = folder / "chat_template.jinja"
    if path.exists():
        return _text(path)
    template = config.get("chat_template")
    if isinstance(template, list):  # several by name; servers use the one called "default"
        template = {entry.get("name"): entry.get("template") for entry in template}.get("default")
    if not isinstance(template, str):
        raise StreamproofError(f"no chat template in {folder}", remedy=_REMEDY)
    return template


def _special_tokens(config: dict[str, Any]) -> dict[str, str]:
    """The named special tokens ("bos_token", ...), which are strings or objects with "content"."""
    named = {}
    for name, value in config.items():
        content = value.get("content") if isinstance(value, dict) else value
        if name.endswith("_token") and isinstance(content, str):
            named[name] = content
    return named
