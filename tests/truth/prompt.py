"""How the reference server sees a prompt: its length, its text, and what a prefix cache would know of it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import orjson


def words(body: dict[str, Any]) -> list[Any]:
    """The prompt in this server's own tokens: the words of a text, or the token ids that were given."""
    prompt = body.get("prompt")
    if isinstance(prompt, list) and prompt and isinstance(prompt[0], int):
        return prompt
    return text(body).split()


def text(body: dict[str, Any]) -> str:
    """Everything that was said, as one text."""
    prompt = body.get("prompt", body.get("messages"))
    if isinstance(prompt, str):
        return prompt
    parts = []
    for message in prompt or ():
        content = message.get("content") if isinstance(message, dict) else message
        parts.append(content if isinstance(content, str) else orjson.dumps(content).decode())
    return "\n".join(parts)


@dataclass(slots=True)
class PrefixCache:
    """A prefix cache that never evicts: whole blocks, each known by all that stands before it."""

    block_size: int
    seen: set[bytes] = field(default_factory=set)

    def look_up(self, tokens: list[Any]) -> int:
        """Tokens found; this prompt's blocks are found from now on. The last token never comes from the cache."""
        digest = hashlib.sha256()
        found = 0
        hit = True
        for end in range(self.block_size, len(tokens) + 1, self.block_size):
            digest.update(orjson.dumps(tokens[end - self.block_size : end]))
            key = digest.digest()
            hit = hit and key in self.seen and end < len(tokens)
            found = end if hit else found
            self.seen.add(key)
        return found
