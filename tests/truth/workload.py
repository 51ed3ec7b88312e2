"""Conversations for the reference server: bodies of a realistic size that carry their own script.

What the server shall do with a request stands in the request itself, under "truth", so that the same turn has the same
fate whenever it is sent; and its tag joins the client's record with the server's truth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from bench.seeds import derive
from bench.workload.turn import Segment, Turn

BYTES_PER_TOKEN = 4


def turn(
    tag: str = "t",
    *,
    agent: str = "booking",
    conversation: int = 0,
    number: int = 0,
    prompt_tokens: int = 50,
    output_tokens: int = 4,
    api: str = "chat",
    **behaviour: Any,
) -> Turn:
    """One turn; `behaviour` is what the server shall do (`tests.truth.script.Behaviour`)."""
    text = f"{tag} ".ljust(prompt_tokens * BYTES_PER_TOKEN, "x")
    prompt: dict[str, Any] = {"messages": [{"role": "user", "content": text}]} if api == "chat" else {"prompt": text}
    body = {
        "model": "truth",
        **prompt,
        "max_tokens": output_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
        "truth": {"tag": tag, "prompt_tokens": prompt_tokens, **behaviour},
    }
    return Turn(
        agent=agent,
        conversation=conversation,
        turn=number,
        body=orjson.dumps(body),
        path="/v1/chat/completions" if api == "chat" else "/v1/completions",
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        segments=(Segment(key=derive(tag) >> 1, tokens=prompt_tokens),),
    )


@dataclass(frozen=True)
class TruthSource:
    """A `bench.load.source.TurnSource`.

    Attributes:
        point: prompts differ between points.
        prompt_tokens, output_tokens: of every turn.
        turns: of every call.
        agents: each primed once; turn k of a call is answered by agent k modulo their number.
        behaviour: what the server shall do with every turn.
        by_turn: what it shall do otherwise with these turns ("stream/conversation/turn", or "prime/agent").

    The tag of a turn is the point, a slash, and the same.
    """

    point: int = 0
    prompt_tokens: int = 50
    output_tokens: int = 4
    turns: int = 3
    agents: tuple[str, ...] = ("router", "booking")
    behaviour: dict[str, Any] = field(default_factory=dict)
    by_turn: dict[str, dict[str, Any]] = field(default_factory=dict)

    def primes(self) -> Sequence[Turn]:
        """One turn per agent."""
        return [self.turn(f"prime/{agent}", agent, 0, 0) for agent in self.agents]

    def calls(self, stream: int) -> Iterator[Sequence[Turn]]:
        """Conversations without end."""
        conversation = 0
        while True:
            yield [
                self.turn(
                    f"{stream}/{conversation}/{number}",
                    self.agents[number % len(self.agents)],
                    conversation,
                    number,
                )
                for number in range(self.turns)
            ]
            conversation += 1

    def turn(
        self, name: str, agent: str, conversation: int, number: int, behaviour: dict[str, Any] | None = None
    ) -> Turn:
        """One turn of this source, whose `behaviour` changes the source's."""
        return turn(
            f"{self.point}/{name}",
            agent=agent,
            conversation=conversation,
            number=number,
            prompt_tokens=self.prompt_tokens,
            output_tokens=self.output_tokens,
            **{**self.behaviour, **self.by_turn.get(name, {}), **(behaviour or {})},
        )
