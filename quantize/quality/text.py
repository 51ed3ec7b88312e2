"""Held-out text: calls of the project's own workload that no checkpoint was trained or calibrated on.

Every text is one whole call, as the agent of its last turn sees it, with that turn's scripted reply: system prompt, the
caller's record, what was said. It is rendered with the checkpoint's own template and encoded with its tokenizer. Each
text has a company of its own, so that no two share a prompt, and the agents take turns.

Seeds are disjoint by construction: these texts come from ("benchmark", "held-out", ...), training text from
("training", ...), and `bench.seeds.derive` hashes the parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from bench.workload.prompt import Prompts
from bench.workload.voice import VoiceWorkload

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.workload.tokens import CheckpointTokenizer
    from recipes.schema import Workload

Role: TypeAlias = Literal["system", "user", "assistant"]
ROLES: Final[tuple[Role, ...]] = ("system", "user", "assistant")
_SEED: Final = "held-out"


@dataclass(frozen=True, slots=True)
class HeldOutText:
    """One call.

    Attributes:
        number: of the text.
        agent: who answers last.
        ids: its tokens.
        roles: of each token: whose message it belongs to, as an index into `ROLES`.
        prompt_tokens: so many tokens are the prompt of the last turn; the rest is its reply.
    """

    number: int
    agent: str
    ids: tuple[int, ...]
    roles: tuple[int, ...]
    prompt_tokens: int


def held_out_texts(
    spec: Workload, tokenizer: CheckpointTokenizer, *, seed: int, vocab_size: int | None = None
) -> Iterator[HeldOutText]:
    """The texts of a seed, endless.

    Args:
        spec: lengths and agents of the recipe's workload.
        tokenizer: of the checkpoint.
        seed: another seed, other texts.
        vocab_size: of the model, where it is known: every id is then checked to be below it.

    Raises:
        UsageError: the workload's lengths cannot be.
    """
    prompts = Prompts(tokenizer, thinking=spec.thinking)
    closing = tuple(tokenizer.ids(prompts.frame.closing["assistant"]))
    number = 0
    while True:
        agent = spec.agents[number % len(spec.agents)]
        alone = spec.model_copy(update={"agents": [agent]})
        workload = VoiceWorkload(
            alone, tokenizer=tokenizer, model="", seed=(_SEED, seed, number), vocab_size=vocab_size
        )
        call = workload.call(0, 0)
        messages = [workload.systems[agent], prompts.message("user", call.record, coded=True)]
        for turn, spoken in enumerate(call.spoken):
            messages.append(prompts.message("user", spoken.caller))
            if turn < len(call.spoken) - 1:
                messages.append(prompts.message("assistant", spoken.reply))
        parts = [(message.part.ids, ROLES.index(message.role)) for message in messages]
        assistant = ROLES.index("assistant")
        parts.append((prompts.generation.ids, assistant))
        prompt_tokens = sum(len(ids) for ids, _ in parts)
        parts.append(((*tokenizer.ids(call.spoken[-1].reply), *closing), assistant))
        yield HeldOutText(
            number=number,
            agent=agent,
            ids=tuple(token for ids, _ in parts for token in ids),
            roles=tuple(role for ids, role in parts for _ in ids),
            prompt_tokens=prompt_tokens,
        )
        number += 1
