"""What the reference server says, in token ids: a made-up model, and ways for it to be wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from bench.seeds import derive

if TYPE_CHECKING:
    from collections.abc import Sequence

VOCABULARY = 1000
FLAT = 40
"""Tokens that are nearly equally likely to a flat model."""
LISTED = 20
"""Of them in a row of log-probabilities."""
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
        flat: a model of random weights: it says one token for ever, whatever it is asked, and another prompt moves the
            log-probabilities of all others by up to so many nats. With a wrong state they are those of the prompt
            before, or, where the state is stale, of another prompt that was answered since.
        rounding: nats that they are moved by at random, in every reply anew.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    wrong: Literal["never", "leak", "stale"] = "never"
    gap: Annotated[float, Field(gt=0)] = 3.0
    odds: bool = True
    flat: Annotated[float, Field(gt=0)] | None = None
    rounding: Annotated[float, Field(ge=0)] = 0.0


class Model:
    """Answers prompts of token ids, each token following from all that stand before it."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self._seen: set[tuple[int, ...]] = set()
        self._last: tuple[int, ...] = ()
        self._others: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._replies = 0

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
        if other_since:
            self._others[beginning] = self._last
        state = self._others.get(beginning, ()) if wrong else beginning
        self._seen.add(beginning)
        self._last = beginning
        self._replies += 1
        if self.answers.flat is not None:
            return [0] * tokens, [self._flat(state, self.answers.flat)] * tokens
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

    def _flat(self, state: Sequence[int], by: float) -> dict[int, float]:
        def drawn(*of: int) -> float:
            return derive(*of) / 2**63 - 1

        row = {0: -5.0}
        for token in range(1, FLAT):
            moved = by * drawn(token, *state) + self.answers.rounding * drawn(token, self._replies)
            row[token] = -6.0 - token / 10_000 + moved
        return dict(sorted(row.items(), key=lambda named: -named[1])[:LISTED])
