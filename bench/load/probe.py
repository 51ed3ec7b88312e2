"""Asks the same before and after something else, one request at a time (`bench.observe.probe`).

The requests go the way of the load: the same client, streamed, at the engine's own settings. They carry token ids and
ask for token ids, whatever the load does, so that nothing is decoded and encoded between what is compared.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import orjson

from bench.observe.probe import ROW_STEPS, STEPS, ProbeOdds, ProbeReply, ProbeTrial, pairs
from bench.records import Outcome
from bench.stats.ties import TOP_K, shared
from bench.workload.prompt import segment_key
from bench.workload.turn import Segment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.load.clock import RunClock
    from bench.load.target import TurnClient
    from bench.observe.probe import RowStep
    from bench.workload.turn import Turn

_ID_PREFIX: Final = "token_id:"
_MOST_ID: Final = 2**31
"""Token ids are int32 in every engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbePrompts:
    """What is asked of one agent.

    Attributes:
        agent: its name.
        first: prompt A, in token ids.
        other: prompt B, which shares no beginning with it.
        rank: data-parallel rank that shall answer all of it; None where there is one engine.
    """

    agent: str
    first: Turn
    other: Turn
    rank: int | None = None


class Probe:
    """The probe of one run.

    Args:
        prompts: of some agents.
        comparable: whether replies mean anything; where drafts are accepted at random, they do not.
        salt: names requests that shall find nothing in the prefix cache; another one in every run.

    Attributes:
        prompts: as given.
    """

    def __init__(self, prompts: Sequence[ProbePrompts], *, comparable: bool, salt: str) -> None:
        self.prompts = prompts
        self._comparable = comparable
        self._salt = salt
        self._salted = 0
        self._earlier: dict[str, ProbeTrial] = {}

    async def ask(self, client: TurnClient, clock: RunClock) -> tuple[ProbeTrial, ...]:
        """All requests; the second time, after the ladder, the same ones. Ends early at one that is not answered."""
        trials = []
        for prompts in self.prompts:
            trial = await self._trial(prompts, client, clock)
            trials.append(trial)
            self._earlier.setdefault(prompts.agent, trial)
            if any(reply.outcome is not Outcome.OK for reply in trial.replies.values()):
                break
        return tuple(trials)

    async def _trial(self, prompts: ProbePrompts, client: TurnClient, clock: RunClock) -> ProbeTrial:
        trial = ProbeTrial(agent=prompts.agent, replies={}, odds=())
        for step in STEPS:
            turn = prompts.other if step == "B" else prompts.first
            reply, _ = await _asked(turn, prompts.rank, client, clock)
            trial = trial.model_copy(update={"replies": {**trial.replies, step: reply}})
            if reply.outcome is not Outcome.OK:
                return trial
        odds = [
            await self._odds(prompts, of, after, cached, client, clock)
            for of, after, cached in self._open_questions(trial)
        ]
        rows: dict[RowStep, ProbeOdds] = {}
        if self._comparable and trial.silent and trial.ids("A2") is not None:
            for row, (of, cached) in ROW_STEPS.items():
                rows[row] = await self._odds(prompts, of, (), cached, client, clock)
                if not rows[row].likely:
                    break
        return trial.model_copy(update={"odds": tuple(odds), "rows": rows})

    async def _odds(  # noqa: PLR0913, PLR0917  a question, and who answers it
        self,
        prompts: ProbePrompts,
        of: Literal["A", "B"],
        after: tuple[int, ...],
        cached: bool,  # noqa: FBT001  as the questions are listed
        client: TurnClient,
        clock: RunClock,
    ) -> ProbeOdds:
        turn = self._continued(prompts.other if of == "B" else prompts.first, after, cached=cached)
        reply, heard = await _asked(turn, prompts.rank, client, clock)
        return ProbeOdds(of=of, after=after, cached=cached, likely=tuple(heard.likely.items()), reply=reply)

    def _open_questions(self, trial: ProbeTrial) -> Iterator[tuple[Any, tuple[int, ...], bool]]:
        """Where to ask how likely tokens are: (behind which prompt, and which beginning of its reply; cached)."""
        parted = [pair for pair in pairs(trial, self._earlier.get(trial.agent)) if pair.parts]
        if not self._comparable or not parted:
            return
        asked = dict.fromkeys(("A", pair.first[: pair.shared], True) for pair in parted)
        asked |= dict.fromkeys(("A", pair.first[: pair.shared], False) for pair in parted if not pair.one_path)
        one, other = trial.ids("A2"), trial.ids("B")
        if one is not None and other is not None:
            start = one[: shared(one, other)]
            asked |= dict.fromkeys((("A", start, True), ("B", start, True)))
        yield from asked

    def _continued(self, turn: Turn, after: tuple[int, ...], *, cached: bool) -> Turn:
        """The prompt and the beginning of a reply to it as one prompt, with one token to come and its odds."""
        body: dict[str, Any] = orjson.loads(turn.body)
        body |= {
            "prompt": [*body["prompt"], *after],
            "max_tokens": 1,
            "logprobs": TOP_K,
            "return_tokens_as_token_ids": True,
        }
        if not cached:
            self._salted += 1
            body["cache_salt"] = f"{self._salt} {self._salted}"
        segments = (*turn.segments, Segment(key=segment_key(str(after)), tokens=len(after))) if after else turn.segments
        return replace(
            turn,
            body=orjson.dumps(body),
            prompt_tokens=turn.prompt_tokens + len(after),
            output_tokens=1,
            segments=segments,
        )


class _Heard:
    """What a reply said."""

    def __init__(self) -> None:
        self.ids: list[int] | None = None
        self.likely: dict[int, float] = {}

    def choice(self, choice: dict[str, Any]) -> None:
        """Take one choice of one chunk.

        Raises:
            TypeError, AttributeError: it has another shape than vLLM's.
        """
        ids = choice.get("token_ids")
        if ids:
            if not all(type(number) is int and 0 <= number < _MOST_ID for number in ids):
                raise TypeError("token_ids that are no token ids")
            self.ids = [*(self.ids or ()), *ids]
        rows = (choice.get("logprobs") or {}).get("top_logprobs")
        if rows and rows[0] and not self.likely:
            self.likely = _by_id(rows[0])


def _by_id(row: dict[str, Any]) -> dict[int, float]:
    """From vLLM's `token_id:17` words; nothing where a server answers with words of its own."""
    try:
        return {int(word.removeprefix(_ID_PREFIX)): float(figure) for word, figure in row.items()}
    except ValueError:
        return {}


async def _asked(turn: Turn, rank: int | None, client: TurnClient, clock: RunClock) -> tuple[ProbeReply, _Heard]:
    heard = _Heard()
    exchange = await client.exchange(turn, clock.now(), rank=rank, on_choice=heard.choice)
    reply = ProbeReply(
        prompt_sha256=hashlib.sha256(orjson.dumps(orjson.loads(turn.body)["prompt"])).hexdigest(),
        sent_s=exchange.sent_s,
        done_s=exchange.done_s,
        prompt_tokens_expected=turn.prompt_tokens,
        prompt_tokens=exchange.prompt_tokens,
        cached_tokens=exchange.cached_tokens,
        completion_tokens=exchange.completion_tokens,
        requested_tokens=turn.output_tokens,
        finish_reason=exchange.finish_reason,
        status=exchange.status,
        outcome=exchange.outcome,
        error=exchange.error,
        token_ids=None if heard.ids is None else tuple(heard.ids),
    )
    return reply, heard
