"""The probe: the same requests before and after others, as they were answered. Raw; what they come to is judged later.

For each of a few agents: prompt A (computed from its first token), A again twice (what it left in the prefix cache may
be complete only then: rules 6 and 8 of `bench.workload.prefix_cache_rules`), B, which shares nothing with it, and A
once more. All greedy, one request at a time, before the ladder and with the same prompts after it. Where two replies to
A part, the engine is asked how likely it takes each token to be there. Where A and B get the same reply, equal replies
say little (a model of random weights may say one token for ever): then the engine is asked how likely it takes each
token to be behind A and behind B, again with one between the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from bench.records import Outcome
from bench.stats.ties import shared

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Step: TypeAlias = Literal["A", "A1", "A2", "B", "A3"]
RowStep: TypeAlias = Literal["A1", "A2", "B", "B0", "A3", "A0"]
When: TypeAlias = Literal["before", "after"]
Path: TypeAlias = Literal["same", "other"]
Count: TypeAlias = Annotated[int, Field(ge=0, lt=2**53)]
Number: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]

STEPS: Final[tuple[Step, ...]] = ("A", "A1", "A2", "B", "A3")
"""In this order."""
ROW_STEPS: Final[dict[RowStep, tuple[Literal["A", "B"], bool]]] = {
    "A1": ("A", True),
    "A2": ("A", True),
    "B": ("B", True),
    "B0": ("B", False),
    "A3": ("A", True),
    "A0": ("A", False),
}
"""In this order: behind which prompt, and whether the prefix cache is open to it. A1 and A2 are repeats with nothing
between them. B0 and A0 are computed from their first token, each right after a request with the same prompt: whatever
one request leaves to the next, they have from their own."""


class Part(BaseModel):
    """Base: frozen, no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ProbeReply(Part):
    """One request of the probe; fields as in `bench.records.RequestRecord` where they have the same names.

    Attributes:
        prompt_sha256: of the prompt's token ids as a JSON list without spaces.
        token_ids: the reply; null where the server does not give them.
    """

    prompt_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    sent_s: Number | None
    done_s: Number
    prompt_tokens_expected: Count
    prompt_tokens: Count | None
    cached_tokens: Count | None
    completion_tokens: Count | None
    requested_tokens: Count
    finish_reason: str | None
    status: int | None
    outcome: Outcome
    error: str
    token_ids: tuple[Count, ...] | None


class ProbeOdds(Part):
    """How likely the engine takes each token to be, behind a prompt and the beginning of a reply to it.

    Attributes:
        of: behind which prompt.
        after: that beginning, in tokens.
        cached: whether the prefix cache was open to this request; false: it was computed from its first token.
        likely: the most likely tokens with their log-probabilities, in nats; empty where the server does not tell.
        reply: the request itself, for one token.
    """

    of: Literal["A", "B"]
    after: tuple[Count, ...]
    cached: bool
    likely: tuple[tuple[Count, Number], ...]
    reply: ProbeReply


class ProbeTrial(Part):
    """The requests of one agent.

    Attributes:
        agent: whose prompts.
        replies: by step; those behind a request that was not answered in full were never sent.
        odds: where replies part.
        rows: behind the prompts themselves, where both got the same reply; those behind one without log-probabilities
            were never sent.
    """

    agent: str
    replies: dict[Step, ProbeReply]
    odds: tuple[ProbeOdds, ...]
    rows: dict[RowStep, ProbeOdds] = {}

    @property
    def silent(self) -> bool:
        """Whether both prompts got the same reply, so that equal replies say little."""
        return self.ids("A2") == self.ids("B")

    def ids(self, step: Step) -> tuple[int, ...] | None:
        """The tokens of a reply, if they are known."""
        reply = self.replies.get(step)
        return None if reply is None else reply.token_ids


@dataclass(frozen=True, slots=True)
class Pair:
    """Two replies to the same prompt.

    Attributes:
        what: "repeated": with another request between them; "ladder": with the whole ladder between them; "cached":
            the first was computed from its first token, the second took its prefix from the cache.
        first, second: their tokens.
    """

    what: Literal["repeated", "ladder", "cached"]
    first: tuple[int, ...]
    second: tuple[int, ...]

    @property
    def shared(self) -> int:
        """Leading tokens that both have."""
        return shared(self.first, self.second)

    @property
    def parts(self) -> bool:
        """Whether they differ."""
        return self.first != self.second

    @property
    def one_path(self) -> bool:
        """Whether both were computed in the same pieces, so that not even rounding should differ."""
        return self.what == "repeated"


def pairs(trial: ProbeTrial, earlier: ProbeTrial | None) -> Iterator[Pair]:
    """What is compared with what, as far as the tokens are known.

    Args:
        trial: of one agent.
        earlier: of the same agent before the ladder, where this one is after it. Its prompt is then not computed from
            its first token, unless the ladder drove it out of the cache.
    """
    wanted: Sequence[tuple[Literal["repeated", "ladder", "cached"], tuple[int, ...] | None, tuple[int, ...] | None]]
    wanted = [("repeated", trial.ids("A2"), trial.ids("A3"))]
    if earlier is None:
        wanted += [("cached", trial.ids("A"), trial.ids(step)) for step in ("A1", "A2")]
    else:
        wanted += [("ladder", earlier.ids("A2"), trial.ids("A3"))]
    for what, first, second in wanted:
        if first is not None and second is not None:
            yield Pair(what, first, second)
