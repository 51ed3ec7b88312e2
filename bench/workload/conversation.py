"""A call with its words: system prompts, the caller's record, utterances and replies, all of given lengths."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Final

from bench.seeds import derive, generator
from bench.workload.caller import Caller
from bench.workload.fit import Fitter
from bench.workload.handbook import system_lines
from bench.workload.script import AGENTS, more, notes, scripted
from bench.workload.wording import table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from faker import Faker

    from bench.workload.company import Company
    from bench.workload.fit import Measure

_REMEMBERED: Final = 1 << 14
"""Lengths of so many pieces are kept: sentences come again and again."""
_CODES: Final = 10**8
_STRIDE: Final = 38_742_049
"""Coprime with `_CODES`: numbers that follow each other get codes that differ in their first digits."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """One turn: the agent, what the caller said, and the scripted reply."""

    agent: str
    caller: str
    reply: str


class Writer:
    """Writes prompts and calls of one company in given lengths.

    Args:
        company: whose.
        measure: length of a piece of text; token counts in a benchmark, words in training.
        fake: reseeded for every caller.
        seed: every text is a function of it and of the numbers that name the text.
    """

    def __init__(self, company: Company, measure: Measure, fake: Faker, *seed: str | int) -> None:
        self._company = company
        self._first_code = derive(*seed, "codes")
        self._fake = fake
        self._seed = seed
        common = table("common")
        self._measure = measure = lru_cache(maxsize=_REMEMBERED)(measure)
        self._fit = {
            kind: Fitter(measure, fillers, common["front"].get(kind, ()), keeps_last=kind == "reply")
            for kind, fillers in common["inside"].items()
        }

    def system(self, agent: str, length: int) -> str:
        """The system prompt of `agent`; its first line is a code that other agents and seeds do not share."""
        code = self._code(-1 - AGENTS.index(agent))
        rng = generator(*self._seed, "system", agent)
        lines = system_lines(self._company, agent, rng, *self._seed)
        fill = generator(*self._seed, "system", agent, "fill")
        return code + self._fit["text"].document(lines, length - self._measure(code), fill)

    def caller(self, stream: int, conversation: int) -> Caller:
        """Who calls."""
        self._fake.seed_instance(derive(*self._seed, "caller", stream, conversation, "faker"))
        return Caller.invented(self._company, generator(*self._seed, "caller", stream, conversation), self._fake)

    def record(self, caller: Caller, length: int, stream: int, conversation: int) -> str:
        """The caller's record; its first line is the number of the call, which no other call of this seed has."""
        code = self._code(1000 * stream + conversation)
        rng = generator(*self._seed, "record", stream, conversation)
        lines = chain(caller.record(self._company, rng), notes(self._company, caller, rng))
        return code + self._fit["note"].document(lines, length - self._measure(code), rng)

    def spoken(
        self,
        caller: Caller,
        agents: Sequence[str],
        lengths: tuple[int, int, int],
        stream: int,
        conversation: int,
    ) -> list[Spoken]:
        """The turns of a call.

        Args:
            caller: who calls.
            agents: the recipe's agents, in the order of a call.
            lengths: turns; length of what the caller says; length of a reply.
            stream: number of the stream.
            conversation: number of the call within its stream.
        """
        turns, caller_length, reply_length = lengths
        script = scripted(self._company, caller, agents, turns, generator(*self._seed, "script", stream, conversation))
        rng = generator(*self._seed, "wording", stream, conversation)
        extra = {speaker: more(script.facts, rng, speaker) for speaker in ("caller", "reply")}
        return [
            Spoken(
                agent=exchange.agent,
                caller=self._fit["caller"].text(exchange.caller, extra["caller"], caller_length, rng, front=place > 0),
                reply=self._fit["reply"].text(exchange.reply, extra["reply"], reply_length, rng, front=place > 0),
            )
            for place, exchange in enumerate(script.exchanges)
        ]

    def prime_code(self, place: int) -> str:
        """The first line of a priming message: the number of no call."""
        return self._code(-1 - len(AGENTS) - place)

    def _code(self, number: int) -> str:
        return f"#{(self._first_code + number * _STRIDE) % _CODES:08d}\n"
