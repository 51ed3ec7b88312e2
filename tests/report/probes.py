"""Probes as a sound engine would answer them; each test bends what it is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from bench.observe.observations import CounterValues, Probed
from bench.observe.probe import ROW_STEPS, STEPS, ProbeOdds, ProbeReply, ProbeTrial
from bench.records import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.observe.probe import RowStep

IDS = tuple(range(100, 110))
OTHER_IDS = tuple(range(200, 210))
PROMPT = 50


def make_reply(ids: tuple[int, ...] | None = IDS, **changes: Any) -> ProbeReply:
    """A whole reply of ten tokens."""
    values: dict[str, Any] = {
        "prompt_sha256": "a" * 64,
        "sent_s": 1.0,
        "done_s": 1.5,
        "prompt_tokens_expected": PROMPT,
        "prompt_tokens": PROMPT,
        "cached_tokens": None,
        "completion_tokens": 10,
        "requested_tokens": 10,
        "finish_reason": "length",
        "status": 200,
        "outcome": Outcome.OK,
        "error": "",
        "token_ids": ids,
    }
    return ProbeReply.model_validate(values | changes)


def make_odds(after: int, likely: dict[int, float], *, of: Literal["A", "B"] = "A", cached: bool = True) -> ProbeOdds:
    """How likely tokens are behind the first `after` tokens of the usual reply."""
    reply = make_reply(
        None,
        prompt_tokens_expected=PROMPT + after,
        prompt_tokens=PROMPT + after,
        completion_tokens=1,
        requested_tokens=1,
    )
    return ProbeOdds(of=of, after=IDS[:after], cached=cached, likely=tuple(likely.items()), reply=reply)


def make_row(moved: float = 0.0, *, of: Literal["A", "B"] = "A", cached: bool = True, path: float = 0.0) -> ProbeOdds:
    """Of a model that always says one token: the others are more likely by up to four times this.

    Args:
        moved: by the prompt.
        of, cached: see `ProbeOdds`.
        path: by how it was computed; other tokens than the prompt moves most.
    """
    others = {
        token: -6.0 - token / 1000 + moved * (token % 5) + path * (token * token % 7 % 3) for token in range(1, 20)
    }
    return make_odds(0, {0: -5.0} | others, of=of, cached=cached)


def make_rows(apart: float = 0.01, path: float = 0.0, **moved: float) -> dict[RowStep, ProbeOdds]:
    """Rows of a sound engine, B's so far from A's, uncached ones by `path`; `moved` says how far some are from A's."""
    rows: dict[RowStep, ProbeOdds] = {}
    for step, (of, cached) in ROW_STEPS.items():
        by = moved.get(step, apart if of == "B" else 0.0)
        rows[step] = make_row(by, of=of, cached=cached, path=0.0 if cached else path)
    return rows


def make_trial(
    agent: str = "router",
    odds: Sequence[ProbeOdds] = (),
    rows: Mapping[RowStep, ProbeOdds] | None = None,
    **replies: Any,
) -> ProbeTrial:
    """Equal replies to A and another one to B; `replies` replaces some by step, with tokens or with a whole reply."""
    given: dict[str, Any] = {"B": OTHER_IDS} | replies
    every = {step: given.get(step, IDS) for step in STEPS}
    whole = {step: each if isinstance(each, ProbeReply) else make_reply(each) for step, each in every.items()}
    return ProbeTrial.model_validate({"agent": agent, "replies": whole, "odds": tuple(odds), "rows": rows or {}})


def make_probed(
    when: Literal["before", "after"] = "before", *trials: ProbeTrial, run: int = 0, **counters: Any
) -> Probed:
    """A probe of one agent or of these; `counters` bends what the engine counted meanwhile."""
    trials = trials or (make_trial(),)
    odds = [odds for trial in trials for odds in (*trial.odds, *trial.rows.values())]
    asked = [reply for trial in trials for reply in trial.replies.values()] + [each.reply for each in odds]
    counted = {
        "requests_finished": len(asked),
        "prompt_tokens": sum(reply.prompt_tokens or 0 for reply in asked),
        "generation_tokens": sum(reply.completion_tokens or 0 for reply in asked),
        "prompt_tokens_cached": 96,
    } | counters
    return Probed(
        t=0.9 if when == "before" else 5000.0,
        run=run,
        when=when,
        began_s=0.1,
        at_begin=CounterValues.model_validate(
            dict.fromkeys((name for name in counted if counted[name] is not None), 0)
        ),
        at_end=CounterValues.model_validate(counted),
        trials=trials,
    )
