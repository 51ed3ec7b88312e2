"""The workload of a voice agent: conversations with exact prompt lengths, as requests that are ready to send.

Assumptions of the benchmark, beside those that a recipe names:

- Replies in the history are scripted, not the model's own. So every prompt is known before the window that measures it,
  and two runs do the same work; what the model really answers is measured and thrown away.
- When a call goes from one agent to the next, the new agent's prompt has its own system message and the whole call so
  far. So the next agent finds only its own prefix in the cache.
- Tool schemas stand in the system message (see `bench.workload.handbook`), and no tool is called.
- The caller's record is a user message of its own before the first utterance. Its length takes up what a call of many
  or few turns leaves, so that the mean prompt of every call is the recipe's.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import orjson
from faker import Faker

from bench.errors import StreamproofError, UsageError
from bench.seeds import generator
from bench.workload.company import LOCALE, Company
from bench.workload.conversation import Spoken, Writer
from bench.workload.prompt import INEXACT, Message, Part, Prompts
from bench.workload.script import AGENTS
from bench.workload.turn import Turn

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench.workload.caller import Caller
    from bench.workload.tokens import CheckpointTokenizer
    from recipes.schema import Workload

PATHS: Final = {"chat": "/v1/chat/completions", "token_ids": "/v1/completions"}
"""Where requests go, by the recipe's `workload.api`."""

_LEAST_RECORD: Final = 40
"""Tokens: the number of the call and a sentence."""
_LEAST_SYSTEM: Final = 40
"""Tokens: the prompt's code and a sentence."""
_PRIMES: Final = 2
"""Priming requests per agent."""
_PRIME: Final = "This is a check of the line before the desk opens. Please say one short sentence."


@dataclass(frozen=True)
class Call:
    """A conversation, readable.

    Attributes:
        stream: number of the stream.
        conversation: number of the conversation within its stream.
        caller: who calls.
        record: the caller's record.
        spoken: what is said, turn by turn.
        turns: the requests, one per turn.
    """

    stream: int
    conversation: int
    caller: Caller
    record: str
    spoken: Sequence[Spoken]
    turns: Sequence[Turn]


class VoiceWorkload:
    """Conversations of one operating point of one run (a `bench.load.source.TurnSource`).

    Args:
        spec: the recipe's workload.
        tokenizer: of the checkpoint; of the project's toy where the checkpoint has none and the recipe's API is
            "token_ids".
        model: the model's name in requests.
        seed: e.g. (fingerprint, run, point). Two workloads of different seeds share no text that a cache could use.
        vocab_size: of the model, where it is known: every token id is then checked to be below it.

    Attributes:
        spec: as given.
        company: the company that is called.
        systems: by agent, the system message.

    Raises:
        UsageError: the recipe asks for agents that do not exist or for lengths that cannot be.
    """

    def __init__(
        self,
        spec: Workload,
        *,
        tokenizer: CheckpointTokenizer,
        model: str,
        seed: tuple[str | int, ...],
        vocab_size: int | None = None,
    ) -> None:
        _check_agents(spec.agents)
        self.spec = spec
        self._model = model
        self._seed = ("benchmark", *seed)
        self._tokenizer = tokenizer
        self._prompts = Prompts(tokenizer, thinking=spec.thinking)
        self._record_tokens = self._budget()
        if vocab_size is not None and tokenizer.vocab_size > vocab_size:
            raise UsageError(
                f"the tokenizer has ids up to {tokenizer.vocab_size - 1:,}, the model only {vocab_size:,} tokens",
                remedy="Use the checkpoint's own tokenizer, or one with a smaller vocabulary.",
            )
        self.company = Company.from_seed(*self._seed)
        self._writer = Writer(self.company, tokenizer.count, Faker(LOCALE), *self._seed)
        self.systems = {agent: self._system(agent) for agent in spec.agents}

    def primes(self) -> Sequence[Turn]:
        """Two requests per agent, all agents once and then again: its prefix and a short unique tail.

        The tail is there because an engine with recurrent layers keeps their state only at the last block border
        before a prompt's end: the prefix's blocks must end before the prompt does. Twice, because a state that a
        prompt looked up and missed is kept only from that prompt on (rules 6 and 8 of
        `bench.workload.prefix_cache_rules`): without the second request, it is the first call to each agent that
        computes what all later ones find.
        """
        turns = []
        for place, agent in enumerate(self.spec.agents * _PRIMES):
            content = f"{self._writer.prime_code(place)}{_PRIME}"
            messages = [self.systems[agent], self._prompts.message("user", content, coded=True)]
            turns.append(self._turn(agent, messages, known=1, conversation=place, turn=0))
        return turns

    def calls(self, stream: int) -> Iterator[Sequence[Turn]]:
        """The conversations of one stream, without end."""
        for conversation in count():
            yield self.call(stream, conversation).turns

    def call(self, stream: int, conversation: int) -> Call:
        """One conversation; it depends on the seed and on these numbers only.

        Args:
            stream: number of the stream.
            conversation: number of the conversation within its stream.
        """
        spec = self.spec
        turns = generator(*self._seed, "turns", stream, conversation).randint(*spec.turns)
        caller = self._writer.caller(stream, conversation)
        record = self._writer.record(caller, self._record_tokens[turns], stream, conversation)
        lengths = (turns, spec.caller_tokens, spec.output_tokens)
        spoken = self._writer.spoken(caller, spec.agents, lengths, stream, conversation)
        history = [self._prompts.message("user", record, coded=True)]
        requests = []
        for turn, said in enumerate(spoken):
            history.append(self._prompts.message("user", said.caller))
            messages = [self.systems[said.agent], *history]
            known = max(1, len(messages) - 2)
            requests.append(self._turn(said.agent, messages, known, conversation=conversation, turn=turn))
            history.append(self._prompts.message("assistant", said.reply))
        return Call(stream, conversation, caller, record, spoken, requests)

    def _budget(self) -> dict[int, int]:
        """By number of turns, the length of the record's content that makes the mean prompt the recipe's.

        The prompt of turn t (from 0) is S + r + R + (t + 1) (u + C) + t (a + A) + g, where S is the shared prefix, R
        the record, C what the caller says, A a reply; r, u, a what the template writes around each, and g the
        generation prompt. Its mean over T turns is S + r + R + (T + 1)/2 (u + C) + (T - 1)/2 (a + A) + g.
        """
        spec, prompts = self.spec, self._prompts
        user = prompts.around("user") + spec.caller_tokens
        assistant = prompts.around("assistant") + spec.output_tokens
        fixed = spec.shared_prefix_tokens + prompts.around("user") + prompts.generation.tokens
        fewest, most = spec.turns
        budget = {
            turns: spec.prompt_tokens - fixed - round(((turns + 1) * user + (turns - 1) * assistant) / 2)
            for turns in range(fewest, most + 1)
        }
        missing = _LEAST_RECORD - budget[most]
        if missing > 0:
            raise UsageError(
                f"workload.prompt_tokens = {spec.prompt_tokens} has no room for a call of {most} turns after a shared "
                f"prefix of {spec.shared_prefix_tokens}: {missing} tokens are missing",
                remedy=f"Raise prompt_tokens to {spec.prompt_tokens + missing}, lower shared_prefix_tokens to "
                f"{spec.shared_prefix_tokens - missing}, or have fewer turns.",
            )
        return budget

    def _system(self, agent: str) -> Message:
        around = self._prompts.around("system")
        length = self.spec.shared_prefix_tokens - around
        if length < _LEAST_SYSTEM:
            raise UsageError(
                f"workload.shared_prefix_tokens = {self.spec.shared_prefix_tokens} is too short for a system prompt",
                remedy=f"It must be {around + _LEAST_SYSTEM} at least.",
            )
        message = self._prompts.message("system", self._writer.system(agent, length), coded=True)
        if message.part.tokens != self.spec.shared_prefix_tokens:
            raise StreamproofError(
                f"the prefix of {agent} has {message.part.tokens} tokens instead of {self.spec.shared_prefix_tokens}",
                remedy=INEXACT,
            )
        self._prompts.checked([message, self._prompts.message("user", _PRIME)], known=0)
        return message

    def _turn(self, agent: str, messages: Sequence[Message], known: int, *, conversation: int, turn: int) -> Turn:
        parts = self._prompts.checked(messages, known)
        return Turn(
            agent=agent,
            conversation=conversation,
            turn=turn,
            body=orjson.dumps(self._body(messages, parts)),
            path=PATHS[self.spec.api],
            prompt_tokens=sum(part.tokens for part in parts),
            output_tokens=self.spec.output_tokens,
            segments=tuple(segment for part in parts for segment in part.segments),
        )

    def _body(self, messages: Sequence[Message], parts: Sequence[Part]) -> Mapping[str, Any]:
        prompt: dict[str, Any]
        if self.spec.api == "chat":
            prompt = {
                "messages": [message.plain for message in messages],
                "chat_template_kwargs": self._prompts.template_options,
            }
        else:
            # An engine without a tokenizer sends chunks without text: only the ids tell that a token came. The first
            # chunk repeats the prompt's ids as well, some 50 KB at 10,000 tokens; a millisecond that counts as latency.
            ids = [number for part in parts for number in part.ids]
            prompt = {"prompt": ids, "return_token_ids": True}
        length = {"max_tokens": self.spec.output_tokens, "temperature": self.spec.sampling.temperature}
        if self.spec.sampling.ignore_eos:
            length["ignore_eos"] = True
        stream = {"stream": True, "stream_options": {"include_usage": True}}
        return {"model": self._model, **prompt, **length, **stream}


def _check_agents(agents: Sequence[str]) -> None:
    for agent in agents:
        if agent not in AGENTS:
            raise UsageError(
                f'workload.agents names "{agent}", which has no text', remedy=f"The agents are {', '.join(AGENTS)}."
            )
    if len(set(agents)) != len(agents):
        raise UsageError(
            "workload.agents names an agent twice", remedy="Name every agent once, in the order of a call."
        )
