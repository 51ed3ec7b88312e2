"""What the reference server says, in token ids: a made-up model, and ways for it to be wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from bench.seeds import derive

if TYPE_CHECKING:
    from collections.abc import Sequence

VOCABULARY = 1000
SURE = 8.0
"""Nats that the best token leads by where nothing is in doubt."""
BEGINNING = 16
"""Tokens that tell one prompt from another."""


class Answers(BaseModel):
    """How the model answers.

    Attributes:
        wrong: when its state is wrong: "never"; "leak": a prompt that was answered before, and another one since;
            "stale": a prompt that was answered before, unless it brings a cache of its own.
        gap: nats that the best token leads by in one of three places; with a wrong state the second one leads by it.
        odds: whether log-probabilities are given.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    wrong: Literal["never", "leak", "stale"] = "never"
    gap: Annotated[float, Field(gt=0)] = 3.0
    odds: bool = True


class Model:
    """Answers prompts of token ids, each token following from all that stand before it."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self._seen: set[tuple[int, ...]] = set()
        self._last: tuple[int, ...] = ()

    def reply(self, body: dict[str, Any], tokens: int) -> tuple[list[int], list[dict[int, float]]] | None:
        """The reply to a request and the odds of each of its tokens; None where it does not ask in token ids."""
        prompt = body.get("prompt")
        if not isinstance(prompt, list) or not body.get("return_token_ids"):
            return None
        beginning = tuple(prompt[:BEGINNING])
        again, other_since = beginning in self._seen, self._last != beginning
        wrong = again and (
            (self.answers.wrong == "leak" and other_since)
            or (self.answers.wrong == "stale" and "cache_salt" not in body)
        )
        self._seen.add(beginning)
        self._last = beginning
        context, rows = list(prompt), []
        for _ in range(tokens):
            rows.append(self._odds(context, wrong=wrong))
            context.append(max(rows[-1], key=rows[-1].__getitem__))
        return context[len(prompt) :], rows

    def _odds(self, context: Sequence[int], *, wrong: bool) -> dict[int, float]:
        drawn = derive(*context)
        best, second = drawn % VOCABULARY, (drawn + 1) % VOCABULARY
        doubtful = drawn // VOCABULARY % 3 == 0
        if doubtful and wrong:
            best, second = second, best
        return {best: -0.1, second: -0.1 - (self.answers.gap if doubtful else SURE)}
