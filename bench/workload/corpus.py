"""Text to train the toy checkpoint on: the benchmark's own kind of calls, from seeds that no benchmark uses.

How it is used: the trainer of the toy first trains its tokenizer on `training_text(seed)`, then cuts the same text into
token sequences for the model. Every string is one whole request with its reply in the form of Qwen3.5's chat template
with thinking off, as the engine sees it: history without thinking blocks, and the last reply behind an empty one. The
special tokens are written out and must be registered as such (`SPECIAL_TOKENS`).

Seeds are disjoint by construction: every training text is derived from ("training", seed, n), every benchmark text from
("benchmark", ...), and `bench.seeds.derive` hashes the parts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final

from faker import Faker

from bench.seeds import generator
from bench.workload.company import LOCALE, Company
from bench.workload.conversation import Spoken, Writer
from bench.workload.script import AGENTS

if TYPE_CHECKING:
    from collections.abc import Iterator

SPECIAL_TOKENS: Final = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>")
"""What the tokenizer must keep whole."""

_CALLS_PER_COMPANY: Final = 24
_PIECE: Final = re.compile(r"\w+|[^\w\s]|\n")


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A call up to one of its turns, as one agent sees it.

    Attributes:
        system: the agent's system prompt.
        record: the caller's record (a user message of its own before the first utterance).
        turns: utterance and reply of every turn so far; the last reply is the one to be learnt.
    """

    system: str
    record: str
    turns: tuple[Spoken, ...]


def training_dialogues(seed: int) -> Iterator[Dialogue]:
    """Dialogues, endless: system prompts of 150 to 7,500 words (most of them short), calls of 1 to 9 turns."""
    fake = Faker(LOCALE)
    for number in count():
        company = Company.from_seed("training", seed, number)
        writer = Writer(company, _words, fake, "training", seed, number)
        for call in range(_CALLS_PER_COMPANY):
            rng = generator("training", seed, number, "sizes", call)
            caller = writer.caller(0, call)
            record = writer.record(caller, rng.randint(40, 260), 0, call)
            lengths = (rng.randint(1, 9), rng.randint(10, 50), rng.randint(24, 110))
            turns = writer.spoken(caller, AGENTS, lengths, 0, call)
            upto = rng.randint(1, len(turns))
            system = writer.system(turns[upto - 1].agent, round(150 * 50 ** rng.random()))
            yield Dialogue(system, record, tuple(turns[:upto]))


def training_text(seed: int) -> Iterator[str]:
    """The dialogues of `training_dialogues`, rendered, each ending with the end of its last reply, endless."""
    for dialogue in training_dialogues(seed):
        parts = [_message("system", dialogue.system), _message("user", dialogue.record)]
        for turn in dialogue.turns[:-1]:
            parts += [_message("user", turn.caller), _message("assistant", turn.reply)]
        last = dialogue.turns[-1]
        parts += [_message("user", last.caller), _message("assistant", f"<think>\n\n</think>\n\n{last.reply}")]
        yield "".join(parts)


def _message(role: str, content: str) -> str:
    return f"<|im_start|>{role}\n{content}<|im_end|>\n"


def _words(text: str) -> int:
    return len(_PIECE.findall(text))
