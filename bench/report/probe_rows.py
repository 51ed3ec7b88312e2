"""The probe's log-probabilities, for the rules about equal answers: they tell where replies of two prompts are equal.

Judged by `bench.stats.moved`: how far those behind prompt A moved, with B between, over the ladder, and from the first
token to the cache, in relation to how far B's are away. A report from before anybody asked for them gets what it got.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

from bench.observe.probe import ROW_STEPS
from bench.stats.moved import NEAR, moved

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench.observe.probe import ProbeTrial, RowStep
    from bench.report.checks import Verdict
    from bench.stats.moved import Moved, Row

Rows: TypeAlias = "Mapping[RowStep, Row]"
Repeats: TypeAlias = "list[tuple[Row, Row]]"

BETWEEN: Final[dict[str, str]] = {
    "repeated": "another request between them",
    "ladder": "the ladder between them",
    "cached": "the second one from the cache",
}
"""What is between two replies to a prompt, by `bench.observe.probe.Pair.what`."""
ASK_AN_ENGINE: Final = "Let the run end, on an engine that gives token ids and log-probabilities."
_EQUAL: Final = "another prompt got the same reply, too"
_ADVICE: Final = (
    "Measure with trained weights, which give other prompts other replies, or with kernels that round alike in every "
    "batch (engine.env.VLLM_BATCH_INVARIANT = 1, where the hardware has them)."
)


@dataclass(frozen=True, slots=True)
class Told:
    """What log-probabilities say where replies do not.

    Attributes:
        verdict: of the rule that asks, as far as they are concerned.
        words: with figures.
        advice: what to do where they are unknown.
    """

    verdict: Verdict
    words: str
    advice: str = ASK_AN_ENGINE


def by_log_probabilities(
    trials: Sequence[tuple[ProbeTrial, ProbeTrial | None]], every: Sequence[ProbeTrial], *, cached: bool
) -> Told | None:
    """What they say of all agents whose two prompts got the same reply; None where there is no such agent.

    Args:
        trials: what is judged, each with that of the same agent before the ladder, where it is after it.
        every: trial of the run: what an agent's show of rounding goes for all of them.
        cached: ask about the cache; otherwise about repeats.
    """
    silent = [(trial, earlier) for trial, earlier in trials if trial.silent]
    if not silent:
        return None
    judged: list[tuple[ProbeTrial, str, Moved | None]] = []
    for trial, earlier in silent:
        known_rows = [rows for each in every if each.agent == trial.agent and (rows := _rows(each)) is not None]
        before = None if earlier is None else _rows(earlier)
        outcomes = _judged(_rows(trial), before, _repeats(known_rows), cached=cached, after=earlier is not None)
        judged += [(trial, what, outcome) for what, outcome in outcomes]
    known = [(trial, what, outcome) for trial, what, outcome in judged if outcome is not None]
    for trial, what, outcome in known:
        if outcome.says == "different":
            return Told("broken", _different(trial, what, outcome))
    if len(known) < len(judged):
        asked = any(trial.rows for trial, _ in silent)
        untold = ", and there are no log-probabilities that would say more" if asked else ""
        return Told("unknown", f"{_EQUAL}: equal replies say little{untold}")
    for trial, what, outcome in known:
        if outcome.says == "unknown":
            return Told("unknown", _unknown(trial, what, outcome), _ADVICE)
    _, _, worst = max(known, key=lambda each: each[2].by / each[2].apart)
    return Told(
        "kept",
        f"{_EQUAL}, but not the same log-probabilities: they are {_nats(worst.apart)} away over {worst.tokens} tokens, "
        f"where {_nats(worst.by)} is the most that one prompt's moved",
    )


def _judged(
    rows: Rows | None, earlier: Rows | None, repeats: Repeats, *, cached: bool, after: bool
) -> Iterator[tuple[str, Moved | None]]:
    """Every movement of a trial that the rule is about; None where not all of its log-probabilities are known."""
    if cached:
        for step in ("A1", "A2"):
            yield "cached", None if rows is None else _from_the_cache(rows, step, repeats)
        return
    yield "repeated", None if rows is None else _again(rows, rows, repeats)
    if after:
        yield "ladder", None if rows is None or earlier is None else _again(earlier, rows, repeats)


def _from_the_cache(rows: Rows, step: RowStep, repeats: Repeats) -> Moved:
    return moved(
        rows["A0"],
        rows[step],
        apart=[(rows["A0"], rows["B0"])],  # from their first token neither has anything of the other: see ROW_STEPS
        repeats=repeats,
        others=[rows["B0"]],
    )


def _again(earlier: Rows, rows: Rows, repeats: Repeats) -> Moved:
    """From A2 of one trial to A3 of the same or of a later one."""
    return moved(
        earlier["A2"],
        rows["A3"],
        apart=[(rows["A0"], rows["B0"]), (rows["A2"], rows["B"])],
        repeats=repeats,
        others=[rows["B"], rows["B0"]],
    )


def _repeats(trials: Sequence[Rows]) -> Repeats:
    """Pairs of an agent's rows that only rounding sets apart: with nothing between, and over the ladder from scratch.

    An engine that rounds in two ways now and then would otherwise look as if it had moved, if B fell to the other way.
    """
    again = [(rows["A1"], rows["A2"]) for rows in trials]
    scratch: tuple[RowStep, ...] = ("A0", "B0")
    return again + [(one[step], other[step]) for one, other in pairwise(trials) for step in scratch]


def _rows(trial: ProbeTrial) -> Rows | None:
    """All of a trial's rows; None where one is missing."""
    rows = {step: dict(odds.likely) for step, odds in trial.rows.items() if odds.likely}
    return rows if rows.keys() == ROW_STEPS.keys() else None


def _different(trial: ProbeTrial, what: str, outcome: Moved) -> str:
    return (
        f"the log-probabilities behind the same prompt of {trial.agent} ({BETWEEN[what]}) moved by "
        f"{_nats(outcome.by)}, {outcome.share:.0%} of the way to another prompt's; repeats differ by "
        f"{_nats(outcome.rounding)}"
    )


def _unknown(trial: ProbeTrial, what: str, outcome: Moved) -> str:
    behind = f"{_EQUAL}, and log-probabilities do not tell: behind the same prompt of {trial.agent} ({BETWEEN[what]})"
    figures = f"they moved by {_nats(outcome.by)}"
    if not outcome.clear:
        return (
            f"{behind} {figures}, but the other prompt's are {_nats(outcome.apart)} away, which is not "
            f"{1 / NEAR:.0f} times what repeats ({_nats(outcome.rounding)}) and float32 differ by"
        )
    return (
        f"{behind} {figures}, {outcome.share:.0%} of the way to the other prompt's, which are {_nats(outcome.apart)} "
        f"away; the same would be {NEAR:.0%} of that at most"
    )


def _nats(figure: float) -> str:
    return f"{figure:.2g} nats"
