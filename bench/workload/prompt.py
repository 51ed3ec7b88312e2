"""Prompts from messages: their text, their tokens, and what two of them share.

A prompt is made of parts that are encoded on their own: what opens a message, its content with what closes it, and the
generation prompt. That is exact where no token can reach over the border of two parts: before a special token, and
after the line break that ends the opening when the content begins with a visible character (the pre-tokenizers of
this family of tokenizers end a piece with its line breaks). `Prompts.checked` proves it again for every prompt.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from bench.errors import StreamproofError
from bench.workload.turn import Segment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.workload.tokens import CheckpointTokenizer

INEXACT: Final = (
    "Texts of an exact length need a tokenizer that merges nothing across line breaks, as byte-level ones of Qwen's "
    "kind do; SentencePiece's kind is not served by this workload yet. With a byte-level one it is a fault of the "
    "workload: please report it with the checkpoint's name."
)
"""What to do where the tokens of a prompt are not those of its parts."""

_PROBES: Final = ("probe-a", "probe-b", "probe-c", "probe-d", "probe-e")
_PROBED_ROLES: Final = ("system", "user", "user", "assistant", "user")


@dataclass(frozen=True, slots=True)
class Frame:
    """What a chat template writes around contents.

    Attributes:
        opening: by role, e.g. "<|im_start|>user" with its line break.
        closing: by role, e.g. "<|im_end|>" with its line break.
        generation: what follows the opening of the assistant in the generation prompt, e.g. an empty thinking block.
    """

    opening: dict[str, str]
    closing: dict[str, str]
    generation: str


@dataclass(frozen=True)
class Part:
    """A run of the rendered prompt whose tokens do not depend on what stands around it.

    Attributes:
        text: as rendered.
        ids: its tokens.
        segments: the same tokens as segments; several where prompts may part in the middle.
    """

    text: str
    ids: tuple[int, ...]
    segments: tuple[Segment, ...]

    @cached_property
    def tokens(self) -> int:
        """Its length."""
        return len(self.ids)


@dataclass(frozen=True)
class Message:
    """A message with its tokens.

    Attributes:
        role: "system", "user" or "assistant".
        content: its text.
        part: as it stands in the prompt, opening and closing included.
    """

    role: str
    content: str
    part: Part

    @cached_property
    def plain(self) -> dict[str, str]:
        """The message as chat requests carry it."""
        return {"role": self.role, "content": self.content}


class Prompts:
    """Makes messages and prompts of one checkpoint.

    Args:
        tokenizer: of the checkpoint.
        thinking: whether the model may think before it answers.

    Raises:
        StreamproofError: the template does not write messages one after the other between special tokens.
    """

    def __init__(self, tokenizer: CheckpointTokenizer, *, thinking: bool) -> None:
        self._tokenizer = tokenizer
        self._options = {"enable_thinking": thinking}
        self.frame = self._learn()
        opening = self._part(self.frame.opening["assistant"])
        generation = self._part(self.frame.generation) if self.frame.generation else Part("", (), ())
        self.generation = _joined((opening, generation))

    @property
    def template_options(self) -> dict[str, bool]:
        """What the request's `chat_template_kwargs` must say."""
        return dict(self._options)

    def around(self, role: str) -> int:
        """Tokens that a message has besides its content."""
        return self._tokenizer.count(self.frame.opening[role]) + self._tokenizer.count(self.frame.closing[role])

    def message(self, role: str, content: str, *, coded: bool = False) -> Message:
        """A message.

        Args:
            role: "system", "user" or "assistant".
            content: must not begin or end with white space.
            coded: the first line is a code in which messages of this role may differ at any character: each of its
                tokens becomes a segment, so that two codes share the segments of their common beginning only.
        """
        code, rest = content.split("\n", 1) if coded else ("", content)
        parts = [self._part(self.frame.opening[role])]
        if coded:
            parts.append(self._token_by_token(f"{code}\n"))
        parts.append(self._part(rest + self.frame.closing[role]))
        return Message(role, content, _joined(parts))

    def checked(self, messages: Sequence[Message], known: int) -> tuple[Part, ...]:
        """The parts of the prompt that consists of these messages and the generation prompt.

        Renders the prompt with the checkpoint's template, and encodes it as the server will.

        Args:
            messages: in order, the system message first.
            known: so many messages at the start have been encoded together before and are not encoded again; what
                follows them begins with a special token, so its tokens do not depend on them.

        Raises:
            StreamproofError: text or tokens are not what the parts say; a fault of this program.
        """
        parts = (*(message.part for message in messages), self.generation)
        rendered = self._tokenizer.template.render([message.plain for message in messages], **self._options)
        if rendered != "".join(part.text for part in parts):
            raise _fault("the chat template renders a prompt differently than its parts")
        start = sum(len(part.text) for part in parts[:known])
        expected = [number for part in parts[known:] for number in part.ids]
        if self._tokenizer.ids(rendered[start:]) != expected:
            raise _fault("the tokenizer joins parts of a prompt that should be apart")
        return parts

    def _part(self, text: str) -> Part:
        ids = tuple(self._tokenizer.ids(text))
        return Part(text, ids, (Segment(segment_key(text), len(ids)),))

    def _token_by_token(self, text: str) -> Part:
        ids = tuple(self._tokenizer.ids(text))
        return Part(text, ids, tuple(Segment(segment_key(self._tokenizer.token(number)), 1) for number in ids))

    def _learn(self) -> Frame:
        messages = [{"role": role, "content": probe} for role, probe in zip(_PROBED_ROLES, _PROBES, strict=True)]
        rendered = self._tokenizer.template.render(messages, **self._options)
        between = re.split("|".join(_PROBES), rendered)
        if len(between) != len(_PROBES) + 1 or not self._tokenizer.added:
            raise _unsupported(rendered)
        pattern = re.compile(f"(?:{'|'.join(map(re.escape, self._tokenizer.added))})\\s*")
        opening, closing = {"system": between[0]}, dict[str, str]()
        following = (*_PROBED_ROLES[1:], "generation")
        for role, next_role, text in zip(_PROBED_ROLES, following, between[1:], strict=True):
            match = pattern.match(text)
            if match is None or pattern.match(text, match.end()) is None:
                raise _unsupported(rendered)
            known_closing = closing.setdefault(role, match.group())
            known_opening = opening.setdefault(next_role, text[match.end() :])
            if (known_closing, known_opening) != (match.group(), text[match.end() :]):
                raise _unsupported(rendered)
        generation = opening.pop("generation")
        if not generation.startswith(opening["assistant"]):
            raise _unsupported(rendered)
        return Frame(opening, closing, generation.removeprefix(opening["assistant"]))


def segment_key(text: str) -> int:
    """The identity of a segment: the first 63 bits of the SHA-256 of its text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def _joined(parts: Sequence[Part]) -> Part:
    return Part(
        text="".join(part.text for part in parts),
        ids=tuple(number for part in parts for number in part.ids),
        segments=tuple(segment for part in parts for segment in part.segments),
    )


def _unsupported(rendered: str) -> StreamproofError:
    return StreamproofError(
        f"the checkpoint's chat template is of a kind that exact prompts cannot be built for: {rendered[:200]!r}",
        remedy="Templates that put every message between special tokens work (ChatML and its kin).",
    )


def _fault(message: str) -> StreamproofError:
    return StreamproofError(message, remedy=INEXACT)
