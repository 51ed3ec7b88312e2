"""One request of a voice conversation, prepared before the window that measures it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of prompt tokens that is the same wherever its key is the same.

    Two prompts share exactly the tokens of their common leading segments; that is all that a prefix cache can see.

    Attributes:
        key: identity of the text: the first 63 bits of its SHA-256, so that it fits a signed column.
        tokens: length in tokens as it stands in the rendered prompt.
    """

    key: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A prepared request.

    Attributes:
        agent: name of the agent that answers.
        conversation: number of the conversation within its stream.
        turn: number of the turn within its conversation.
        body: the JSON request body, UTF-8, ready to send.
        path: the endpoint path, e.g. "/v1/chat/completions".
        prompt_tokens: exact length of the rendered prompt.
        output_tokens: exact length of the reply asked for.
        segments: the rendered prompt as segments, in order; their tokens add up to `prompt_tokens`.
    """

    agent: str
    conversation: int
    turn: int
    body: bytes
    path: str
    prompt_tokens: int
    output_tokens: int
    segments: tuple[Segment, ...]
